#include "gpuhpc/report/training.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <optional>

#include "gpuhpc/base/error.hpp"
#include "gpuhpc/io/json.hpp"
#include "gpuhpc/io/lines.hpp"

namespace gpuhpc {
namespace {

constexpr std::array<const char*, 13> columns_read = {"loss",
                                                      "gradient_norm",
                                                      "learning_rate_multiplier",
                                                      "tokens",
                                                      "tokens_per_second",
                                                      "data_seconds",
                                                      "compute_seconds",
                                                      "exposed_communication_seconds",
                                                      "update_seconds",
                                                      "step_seconds",
                                                      "host_memory",
                                                      "device_memory",
                                                      "gpu_utilisation"};
constexpr double gib = 1024.0 * 1024.0 * 1024.0;

// A number; null (an update that was skipped has no loss) is NaN.
double number_of(const Json& value, const std::string& key, const std::string& where) {
  if (value.is_null()) return std::nan("");
  if (!value.is_number())
    throw input_error("{}: `{}` is not a number; this is no line of ours", where, key);
  return value.get<double>();
}

double number_at(const Json& line, const std::string& key, const std::string& where) {
  const auto found = line.find(key);
  if (found == line.end())
    throw input_error("{}: there is no `{}`; this is no line of ours", where, key);
  return number_of(*found, key, where);
}

Json parse_line(const std::string& text, const std::string& where) {
  Json line = parse_json(text, where);
  if (!line.is_object())
    throw input_error("{}: this is not a JSON object; one a line was expected", where);
  return line;
}

// NaN up to the present step.
void put(TrainingLines& lines, const std::string& column, double value) {
  std::vector<double>& values = lines.columns[column];
  values.resize(lines.steps.size() - 1, std::nan(""));
  values.push_back(value);
}

void add_line(TrainingLines& lines, const Json& line, const std::string& where) {
  const double step = number_at(line, "step", where);
  if (!std::isfinite(step))
    throw input_error("{}: `step` is not a number; this is no line of ours", where);
  if (const auto loss = line.find("validation_loss"); loss != line.end()) {
    lines.validation_steps.push_back(step);
    lines.validation_losses.push_back(number_of(*loss, "validation_loss", where));
    return;
  }
  lines.steps.push_back(step);
  for (const char* column : columns_read)
    if (const auto value = line.find(column); value != line.end())
      put(lines, column, number_of(*value, column, where));
  const auto rates = line.find("learning_rates");
  if (rates == line.end()) return;
  if (!rates->is_object())
    throw input_error("{}: `learning_rates` is not an object; this is no line of ours", where);
  for (const auto& [group, rate] : rates->items())
    put(lines, "learning_rates." + group, number_of(rate, group, where));
}

// The column when it has something to draw.
const std::vector<double>* column(const TrainingLines& lines, const std::string& name) {
  const auto found = lines.columns.find(name);
  if (found == lines.columns.end() || std::none_of(found->second.begin(), found->second.end(),
                                                   [](double v) { return std::isfinite(v); }))
    return nullptr;
  return &found->second;
}

ReportSeries series_of(const TrainingLines& lines, const std::vector<double>& values,
                       std::string name, double unit = 1) {
  ReportSeries series{std::move(name), lines.steps, values};
  for (double& value : series.y) value /= unit;
  return series;
}

void add_curve(std::vector<ReportCurve>& curves, ReportCurve curve) {
  if (std::ranges::any_of(curve.series,
                          [](const ReportSeries& series) { return !series.x.empty(); }))
    curves.push_back(std::move(curve));
}

// One curve of one or several columns; `unit` divides.
struct Wanted {
  const char *column, *name;
};
void add_columns(std::vector<ReportCurve>& curves, const TrainingLines& lines, const char* title,
                 std::initializer_list<Wanted> wanted, double unit = 1) {
  ReportCurve curve{title, "step", {}};
  for (const Wanted& one : wanted)
    if (const auto* values = column(lines, one.column))
      curve.series.push_back(series_of(lines, *values, one.name, unit));
  add_curve(curves, std::move(curve));
}

// Groups that go the same way (with and without weight decay) share a line.
ReportCurve learning_rates(const TrainingLines& lines) {
  ReportCurve curve{"learning rates", "step", {}};
  for (const auto& [name, values] : lines.columns) {
    if (!name.starts_with("learning_rates.") || column(lines, name) == nullptr) continue;
    const std::string group = name.substr(15);
    const auto same = std::ranges::find_if(
        curve.series, [&](const ReportSeries& series) { return series.y == values; });
    if (same != curve.series.end())
      same->name += ", " + group;
    else
      curve.series.push_back(series_of(lines, values, group));
  }
  return curve;
}

// Mean of each value and those before it, over a twentieth of the run: lines of several runs are
// then told apart.
std::vector<double> running_mean(const std::vector<double>& values) {
  const std::size_t window = std::max<std::size_t>(1, values.size() / 20);
  std::vector<double> means(values.size(), std::nan(""));
  double sum = 0;
  std::int64_t count = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (std::isfinite(values[i])) sum += values[i], ++count;
    if (i >= window && std::isfinite(values[i - window])) sum -= values[i - window], --count;
    if (count > 0) means[i] = sum / static_cast<double>(count);
  }
  return means;
}

// Seconds since the first step began, at the end of each.
std::optional<std::vector<double>> elapsed(const TrainingLines& lines) {
  const auto *seconds = column(lines, "step_seconds"), *tokens = column(lines, "tokens"),
             *rate = column(lines, "tokens_per_second");
  if (seconds == nullptr && (tokens == nullptr || rate == nullptr)) return std::nullopt;
  std::vector<double> ends(lines.steps.size());
  double sum = 0;
  for (std::size_t i = 0; i < ends.size(); ++i) {
    const auto at = [i](const std::vector<double>& values) {
      return i < values.size() ? values[i] : std::nan("");
    };
    const double step = seconds ? at(*seconds) : at(*tokens) / at(*rate);
    ends[i] = sum += std::isfinite(step) ? step : 0;
  }
  return ends;
}

}  // namespace

TrainingLines read_training_lines(const std::filesystem::path& path) {
  TrainingLines result;
  LineReader lines(path);
  std::string line, held, where;
  // A line is looked at once it is known whether it is the last one.
  const auto use = [&](bool last) {
    Json json;
    try {
      json = parse_line(held, where);
    } catch (const Error&) {
      if (last) return;
      throw;
    }
    add_line(result, json, where);
  };
  bool any = false;
  for (; lines.next(line); any = true) {
    if (any) use(false);
    held = line;
    where = lines.where();
  }
  if (any) use(true);
  for (auto& [name, values] : result.columns) values.resize(result.steps.size(), std::nan(""));
  return result;
}

std::vector<ReportRank> read_ranks(const std::filesystem::path& path) {
  std::vector<ReportRank> ranks;
  LineReader lines(path);
  for (std::string text; lines.next(text);) {
    const std::string where = lines.where();
    const Json line = parse_line(text, where);
    const auto seconds = [&](const char* key) { return number_at(line, key, where); };
    const auto whole = [&](const char* key) {
      const double value = number_at(line, key, where);
      if (!(std::abs(value) < 1e18))
        throw input_error("{}: `{}` is not a whole number; this is no line of ours", where, key);
      return static_cast<std::int64_t>(value);
    };
    const auto words = [&](const char* key) {
      const auto found = line.find(key);
      if (found == line.end() || !found->is_string())
        throw input_error("{}: there is no text `{}`; this is no line of ours", where, key);
      return found->get<std::string>();
    };
    ranks.push_back({.rank = whole("rank"),
                     .host = words("host"),
                     .device = words("device"),
                     .steps = whole("steps"),
                     .tokens = whole("tokens"),
                     .peak_memory = whole("peak_memory"),
                     .data = seconds("data_seconds"),
                     .compute = seconds("compute_seconds"),
                     .sum = seconds("exposed_communication_seconds"),
                     .update = seconds("update_seconds"),
                     .other = seconds("other_seconds"),
                     .wall = seconds("wall_seconds")});
  }
  return ranks;
}

std::vector<ReportCurve> training_curves(const TrainingLines& lines) {
  std::vector<ReportCurve> curves;
  ReportCurve loss{"loss", "step", {}};
  if (const auto* values = column(lines, "loss"))
    loss.series.push_back(series_of(lines, *values, "training"));
  if (!lines.validation_steps.empty())
    loss.series.push_back({"validation", lines.validation_steps, lines.validation_losses});
  add_curve(curves, std::move(loss));
  ReportCurve rates = learning_rates(lines);
  if (rates.series.empty())
    add_columns(curves, lines, "learning rate (share of the peak)",
                {{"learning_rate_multiplier", "rate"}});
  else
    add_curve(curves, std::move(rates));
  add_columns(curves, lines, "gradient norm, before clipping", {{"gradient_norm", "norm"}});
  add_columns(curves, lines, "tokens a second", {{"tokens_per_second", "rate"}});
  add_columns(curves, lines, "memory in GiB",
              {{"host_memory", "host"}, {"device_memory", "device"}}, gib);
  add_columns(curves, lines, "GPU utilisation in percent", {{"gpu_utilisation", "use"}});
  return curves;
}

std::vector<ReportCurve> compare_curves(const std::vector<TrainingLines>& runs) {
  std::vector<ReportCurve> curves;
  // A run that has nothing to show keeps its place, and the others their colours.
  const auto add = [&](const char* title, const char* name, bool smooth) {
    ReportCurve curve{title, "step", {}};
    for (const TrainingLines& lines : runs) {
      const auto* values = column(lines, name);
      curve.series.push_back(
          values == nullptr
              ? ReportSeries{lines.run, {}, {}}
              : series_of(lines, smooth ? running_mean(*values) : *values, lines.run));
    }
    add_curve(curves, std::move(curve));
  };
  add("training loss", "loss", true);
  ReportCurve timed{"training loss over time", "seconds of training", {}},
      validation{"validation loss", "step", {}};
  for (const TrainingLines& lines : runs) {
    const auto* values = column(lines, "loss");
    const auto seconds = elapsed(lines);
    timed.series.push_back(values != nullptr && seconds
                               ? ReportSeries{lines.run, *seconds, running_mean(*values)}
                               : ReportSeries{lines.run, {}, {}});
    validation.series.push_back({lines.run, lines.validation_steps, lines.validation_losses});
  }
  add_curve(curves, std::move(timed));
  add_curve(curves, std::move(validation));
  add("learning rate (share of the peak)", "learning_rate_multiplier", false);
  add("gradient norm, before clipping", "gradient_norm", true);
  add("tokens a second", "tokens_per_second", true);
  return curves;
}

ReportSplit step_split(const TrainingLines& lines) {
  ReportSplit split{lines.run, lines.steps, {}};
  for (const auto& [part, key] : {std::pair{"data", "data_seconds"},
                                  {"compute", "compute_seconds"},
                                  {"sum", "exposed_communication_seconds"},
                                  {"update", "update_seconds"}})
    if (const auto* values = column(lines, key)) split.parts.push_back({part, *values});
  for (ReportPart& part : split.parts)
    for (double& seconds : part.seconds)
      seconds = std::isfinite(seconds) ? std::max(0.0, seconds) : 0;
  const auto* whole = column(lines, "step_seconds");
  if (whole == nullptr || split.parts.empty()) return split;
  ReportPart other{"other", *whole};
  for (std::size_t i = 0; i < other.seconds.size(); ++i) {
    for (const ReportPart& part : split.parts) other.seconds[i] -= part.seconds[i];
    other.seconds[i] = std::isfinite(other.seconds[i]) ? std::max(0.0, other.seconds[i]) : 0;
  }
  split.parts.push_back(std::move(other));
  return split;
}

std::vector<double> percent_shares(const std::vector<double>& amounts) {
  const double total = std::accumulate(amounts.begin(), amounts.end(), 0.0);
  std::vector<double> shares(amounts.size(), 0), rests(amounts.size(), 0);
  if (!(total > 0) || !std::isfinite(total)) return shares;
  int left = 1000;  // tenths of a percent
  for (std::size_t i = 0; i < amounts.size(); ++i) {
    const double exact = 1000 * amounts[i] / total;
    shares[i] = std::floor(exact);
    rests[i] = exact - shares[i];
    left -= static_cast<int>(shares[i]);
  }
  // The largest remainders are rounded up.
  for (; left > 0; --left) {
    const auto most = std::ranges::max_element(rests);
    shares[static_cast<std::size_t>(most - rests.begin())] += 1;
    *most = -1;
  }
  for (double& share : shares) share /= 10;
  return shares;
}

}  // namespace gpuhpc
