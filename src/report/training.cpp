#include "gpuhpc/report/training.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <optional>

#include "gpuhpc/base/error.hpp"
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

// What a validation says beside its loss and perplexity.
void add_figures(TrainingLines& lines, const Json& line, double step, const std::string& where) {
  constexpr std::string_view prefix = "validation_";
  for (const auto& [key, value] : line.items()) {
    if (!key.starts_with(prefix) || key == "validation_loss" || key == "validation_perplexity")
      continue;
    const std::string name = key.substr(prefix.size());
    auto figure = std::ranges::find(lines.figures, name, &TrainingLines::Figure::name);
    if (figure == lines.figures.end())
      figure = lines.figures.insert(figure, TrainingLines::Figure{name, {}, {}});
    figure->steps.push_back(step);
    figure->values.push_back(number_of(value, key, where));
  }
}

void add_line(TrainingLines& lines, const Json& line, const std::string& where) {
  const double step = number_at(line, "step", where);
  if (!std::isfinite(step))
    throw input_error("{}: `step` is not a number; this is no line of ours", where);
  if (const auto loss = line.find("validation_loss"); loss != line.end()) {
    lines.validation_steps.push_back(step);
    lines.validation_losses.push_back(number_of(*loss, "validation_loss", where));
    if (const auto value = line.find("validation_perplexity"); value != line.end())
      lines.perplexities.push_back(number_of(*value, "validation_perplexity", where));
    add_figures(lines, line, step, where);
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

const std::vector<double>* column(const TrainingLines& lines, const std::string& name) {
  const auto found = lines.columns.find(name);
  return found == lines.columns.end() ? nullptr : &found->second;
}

// Of more points than can be told apart every n-th and the last. `unit` divides y.
Json series_data(const std::string& name, const std::vector<double>& x,
                 const std::vector<double>& y, double unit = 1) {
  constexpr std::size_t points_kept = 400;
  const std::size_t stride = x.size() / points_kept + 1;
  Json xs = Json::array(), ys = Json::array();
  for (std::size_t i = 0; i < x.size(); ++i) {
    if (i % stride != 0 && i + 1 != x.size()) continue;
    xs.push_back(x[i]);
    ys.push_back(std::isfinite(y[i]) ? Json(y[i] / unit) : Json(nullptr));
  }
  const auto not_finite = std::ranges::count_if(y, [](double v) { return !std::isfinite(v); });
  return {{"name", name}, {"x", xs}, {"y", ys}, {"not_finite", not_finite}};
}

void add_curve(Json& curves, const char* title, const char* x_label, Json series) {
  if (std::ranges::any_of(series, [](const Json& one) { return !one.at("x").empty(); }))
    curves.push_back({{"title", title}, {"x_label", x_label}, {"series", std::move(series)}});
}

// One curve of one or several columns; `unit` divides.
struct Wanted {
  const char *column, *name;
};
void add_columns(Json& curves, const TrainingLines& lines, const char* title,
                 std::initializer_list<Wanted> wanted, double unit = 1) {
  Json series = Json::array();
  for (const Wanted& one : wanted)
    if (const auto* values = column(lines, one.column))
      series.push_back(series_data(one.name, lines.steps, *values, unit));
  add_curve(curves, title, "step", std::move(series));
}

// Groups that go the same way (with and without weight decay) share a line.
Json learning_rates(const TrainingLines& lines) {
  std::vector<std::pair<std::string, const std::vector<double>*>> groups;
  for (const auto& [name, values] : lines.columns) {
    if (!name.starts_with("learning_rates.")) continue;
    const std::string group = name.substr(15);
    const auto same = std::ranges::find_if(
        groups, [&rates = values](const auto& other) { return *other.second == rates; });
    if (same != groups.end())
      same->first += ", " + group;
    else
      groups.emplace_back(group, &values);
  }
  Json series = Json::array();
  for (const auto& [name, values] : groups)
    series.push_back(series_data(name, lines.steps, *values));
  return series;
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

// The losses of several data sets in one, every other figure in one of its own.
void add_figure_curves(Json& curves, const TrainingLines& lines) {
  constexpr std::string_view loss = "loss_";
  Json losses = Json::array();
  for (const auto& [name, steps, values] : lines.figures)
    if (name.starts_with(loss))
      losses.push_back(series_data(name.substr(loss.size()), steps, values));
  add_curve(curves, "validation loss of each data set", "step", std::move(losses));
  for (const auto& [name, steps, values] : lines.figures)
    if (!name.starts_with(loss))
      add_curve(curves, ("validation " + name).c_str(), "step",
                Json::array({series_data("validation", steps, values)}));
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

Json read_ranks(const std::filesystem::path& path) {
  Json ranks = Json::array();
  LineReader lines(path);
  for (std::string text; lines.next(text);) {
    const std::string where = lines.where();
    Json line = parse_line(text, where);
    for (const char* key : {"host", "device"})
      if (const auto found = line.find(key); found == line.end() || !found->is_string())
        throw input_error("{}: there is no text `{}`; this is no line of ours", where, key);
    for (const char* key :
         {"rank", "steps", "tokens", "peak_memory", "data_seconds", "compute_seconds",
          "exposed_communication_seconds", "update_seconds", "other_seconds", "wall_seconds"})
      number_at(line, key, where);
    ranks.push_back(std::move(line));
  }
  return ranks;
}

Json training_curves(const TrainingLines& lines) {
  Json curves = Json::array(), loss = Json::array();
  if (const auto* values = column(lines, "loss"))
    loss.push_back(series_data("training", lines.steps, *values));
  if (!lines.validation_steps.empty())
    loss.push_back(series_data("validation", lines.validation_steps, lines.validation_losses));
  add_curve(curves, "loss", "step", std::move(loss));
  if (!lines.perplexities.empty() && lines.perplexities.size() == lines.validation_steps.size())
    add_curve(curves, "perplexity", "step",
              Json::array({series_data("validation", lines.validation_steps, lines.perplexities)}));
  add_figure_curves(curves, lines);
  if (Json rates = learning_rates(lines); !rates.empty())
    add_curve(curves, "learning rates", "step", std::move(rates));
  else
    add_columns(curves, lines, "learning rate (share of the peak)",
                {{"learning_rate_multiplier", "rate"}});
  add_columns(curves, lines, "gradient norm, before clipping", {{"gradient_norm", "norm"}});
  add_columns(curves, lines, "tokens per second", {{"tokens_per_second", "rate"}});
  add_columns(curves, lines, "memory in GiB",
              {{"host_memory", "host"}, {"device_memory", "device"}}, gib);
  add_columns(curves, lines, "GPU utilisation in percent", {{"gpu_utilisation", "use"}});
  return curves;
}

Json compare_curves(const std::vector<TrainingLines>& runs) {
  Json curves = Json::array();
  // A run that has nothing to show keeps its place, and the others their colours.
  const auto nothing = [](const TrainingLines& lines) { return series_data(lines.run, {}, {}); };
  const auto add = [&](const char* title, const char* name, bool smooth) {
    Json series = Json::array();
    for (const TrainingLines& lines : runs) {
      const auto* values = column(lines, name);
      series.push_back(values == nullptr ? nothing(lines)
                                         : series_data(lines.run, lines.steps,
                                                       smooth ? running_mean(*values) : *values));
    }
    add_curve(curves, title, "step", std::move(series));
  };
  add("training loss", "loss", true);
  Json timed = Json::array(), validation = Json::array();
  for (const TrainingLines& lines : runs) {
    const auto* values = column(lines, "loss");
    const auto seconds = elapsed(lines);
    timed.push_back(values != nullptr && seconds
                        ? series_data(lines.run, *seconds, running_mean(*values))
                        : nothing(lines));
    validation.push_back(series_data(lines.run, lines.validation_steps, lines.validation_losses));
  }
  add_curve(curves, "training loss over time", "seconds of training", std::move(timed));
  add_curve(curves, "validation loss", "step", std::move(validation));
  add("learning rate (share of the peak)", "learning_rate_multiplier", false);
  add("gradient norm, before clipping", "gradient_norm", true);
  add("tokens per second", "tokens_per_second", true);
  return curves;
}

Json step_split(const TrainingLines& lines) {
  constexpr std::size_t most_bars = 60;
  const std::size_t count = lines.steps.size(), bars = std::min(count, most_bars);
  const auto edge = [&](std::size_t bar) { return bar * count / bars; };
  std::vector<std::pair<std::string, std::vector<double>>> parts;
  for (const auto& [name, key] : {std::pair{"data", "data_seconds"},
                                  {"compute", "compute_seconds"},
                                  {"sum", "exposed_communication_seconds"},
                                  {"update", "update_seconds"}})
    if (const auto* values = column(lines, key)) {
      parts.emplace_back(name, *values);
      for (double& seconds : parts.back().second)
        seconds = std::isfinite(seconds) ? std::max(0.0, seconds) : 0;
    }
  if (parts.empty()) return nullptr;
  if (const auto* whole = column(lines, "step_seconds")) {
    std::vector<double> other = *whole;
    for (std::size_t i = 0; i < count; ++i) {
      for (const auto& [name, seconds] : parts) other[i] -= seconds[i];
      other[i] = std::isfinite(other[i]) ? std::max(0.0, other[i]) : 0;
    }
    parts.emplace_back("other", std::move(other));
  }
  Json split = {{"count", count}, {"first", Json::array()}, {"last", Json::array()}};
  for (std::size_t b = 0; b < bars; ++b) {
    split["first"].push_back(lines.steps[edge(b)]);
    split["last"].push_back(lines.steps[edge(b + 1) - 1]);
  }
  for (const auto& [name, seconds] : parts) {
    const auto sum = [&, at = seconds.begin()](std::size_t first, std::size_t last) {
      return std::accumulate(at + static_cast<std::ptrdiff_t>(first),
                             at + static_cast<std::ptrdiff_t>(last), 0.0);
    };
    Json part = {{"name", name}, {"seconds", sum(0, count)}, {"bars", Json::array()}};
    for (std::size_t b = 0; b < bars; ++b)
      part["bars"].push_back(sum(edge(b), edge(b + 1)) /
                             static_cast<double>(edge(b + 1) - edge(b)));
    split["parts"].push_back(std::move(part));
  }
  return split;
}

}  // namespace gpuhpc
