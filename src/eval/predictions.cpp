#include "gpuhpc/eval/predictions.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <unordered_set>

#include "gpuhpc/base/error.hpp"
#include "gpuhpc/base/finite.hpp"
#include "gpuhpc/eval/label_list.hpp"
#include "gpuhpc/io/atomic_file.hpp"
#include "gpuhpc/io/json.hpp"
#include "gpuhpc/io/lines.hpp"

namespace gpuhpc {
namespace {

std::string json_string(const std::string& text) { return nlohmann::json(text).dump(); }

}  // namespace

std::string csv_field(const std::string& text) {
  if (text.find_first_of(",\"\n\r") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"') quoted += '"';
    quoted += c;
  }
  return quoted + '"';
}

std::string submission_header(const SubmissionOptions& options) {
  const std::size_t comma = options.header.find(',');
  if (comma == 0 || comma == std::string::npos || comma + 1 == options.header.size() ||
      options.header.find(',', comma + 1) != std::string::npos)
    throw usage_error(
        "submission-header is `{}`; give two column names with a comma between, such as pid,labels",
        options.header);
  return options.header;
}

std::string submission_line(const std::string& id, std::span<const std::int32_t> labels) {
  return fmt::format("{},\"{}\"", csv_field(id), fmt::join(labels, ","));
}

std::string prediction_line(const std::string& id, std::span<const std::int32_t> labels,
                            std::optional<std::span<const ClassScore>> scores,
                            const ClassWords& words) {
  std::string line = fmt::format("{{\"id\": {}, \"labels\": [", json_string(id));
  for (std::size_t i = 0; i < labels.size(); ++i)
    line += fmt::format("{}{}", i ? ", " : "", json_string(words.word(labels[i])));
  line += ']';
  if (scores) {
    line += ", \"scores\": {";
    // The shortest digits that read back as the same float: what is measured from the file is what
    // was computed.
    for (std::size_t i = 0; i < scores->size(); ++i)
      line += fmt::format("{}{}: {}", i ? ", " : "", json_string(words.word((*scores)[i].class_id)),
                          (*scores)[i].score);
    line += '}';
  }
  return line + '}';
}

namespace {

// One CSV record (RFC 4180), which may span lines inside quotes. False at the end of the file;
// `where` is its first line.
bool next_record(LineReader& lines, std::vector<std::string>& fields, std::string& where) {
  std::string line;
  do {
    if (!lines.next(line)) return false;
  } while (trimmed(line).empty());
  where = lines.where();
  fields.assign(1, "");
  bool quoted = false;
  for (std::size_t i = 0;; ++i) {
    if (i == line.size()) {
      if (!quoted) return true;
      fields.back() += '\n';
      if (!lines.next(line))
        throw input_error("{}: a quote is opened and never closed; write labels as \"1,2,3\"",
                          where);
      i = static_cast<std::size_t>(-1);
      continue;
    }
    const char c = line[i];
    if (quoted && c == '"' && i + 1 < line.size() && line[i + 1] == '"') {
      fields.back() += '"';
      ++i;
    } else if (c == '"' && (quoted || fields.back().empty())) {
      quoted = !quoted;
    } else if (c == ',' && !quoted) {
      fields.emplace_back();
    } else {
      fields.back() += c;
    }
  }
}

std::size_t find_column(const std::vector<std::string>& header,
                        std::initializer_list<std::string_view> names, const std::string& where) {
  for (const std::string_view name : names)
    for (std::size_t column = 0; column < header.size(); ++column)
      if (trimmed(header[column]) == name) return column;
  throw input_error(
      "{}: no column `{}`; the first line must name the columns, for example `pid,labels`", where,
      *names.begin());
}

void add_document(Predictions& predictions, std::unordered_set<std::string>& seen, std::string id,
                  const std::string& where) {
  if (id.empty()) throw input_error("{}: the document id is empty", where);
  if (!seen.insert(id).second)
    throw input_error("{}: document `{}` is predicted twice; keep one line", where, id);
  predictions.ids.push_back(std::move(id));
}

Predictions read_csv(const std::filesystem::path& path, const ClassWords& words) {
  LineReader lines(path);
  std::vector<std::string> header, fields;
  std::string where;
  if (!next_record(lines, header, where))
    throw input_error("{}: the file is empty; it must begin with a line like `pid,labels`",
                      path.string());
  const std::size_t id_column = find_column(header, {"pid", "id"}, where);
  const std::size_t label_column = find_column(header, {"labels", "label"}, where);
  Predictions predictions;
  std::unordered_set<std::string> seen;
  while (next_record(lines, fields, where)) {
    if (fields.size() != header.size())
      throw input_error(
          "{}: {} columns where the header has {}; put the labels of a document in quotes: "
          "\"1,2,3\"",
          where, fields.size(), header.size());
    add_document(predictions, seen, fields[id_column], where);
    predictions.labels.push_back(parse_label_list(fields[label_column], words, where, false));
  }
  return predictions;
}

std::string word_of(const Json& value, const char* what, const std::string& where) {
  if (value.is_string()) return value.get<std::string>();
  if (value.is_number_integer()) return value.dump();
  throw input_error("{}: {} must be text or a whole number", where, what);
}

std::vector<ClassScore> parse_scores(const Json& object, const ClassWords& words,
                                     const std::string& id, const std::string& where) {
  if (!object.is_object())
    throw input_error("{}: \"scores\" must be an object, {{\"class\": number}}", where);
  std::vector<ClassScore> scores;
  for (const auto& [word, value] : object.items()) {
    if (!value.is_number() && !value.is_null())
      throw input_error("{}: the score of `{}` is not a number", where, word);
    const float score = value.is_null() ? NAN : value.get<float>();
    if (!std::isfinite(score))
      throw not_finite_error(
          "{}: document `{}`: its score of class `{}` is not finite; were the weights of what made "
          "it damaged?",
          where, id, word);
    scores.push_back({parse_label(word, words, where), score});
  }
  std::vector<std::int32_t> classes;
  for (const ClassScore& s : scores) classes.push_back(s.class_id);
  std::sort(classes.begin(), classes.end());
  const auto twice = std::adjacent_find(classes.begin(), classes.end());
  if (twice != classes.end())
    throw input_error("{}: class `{}` has two scores, by id and by name; keep one", where,
                      words.word(*twice));
  sort_scores(scores);
  return scores;
}

// NaN and the infinities, which other programs write though JSON does not have them, as null.
std::string without_not_finite(std::string_view line) {
  std::string text;
  bool quoted = false;
  for (std::size_t i = 0; i < line.size();) {
    if (line[i] == '"') quoted = !quoted;
    const std::string_view rest = line.substr(i);
    std::size_t length = quoted && line[i] == '\\' ? 2 : 1;
    std::string_view kept = rest.substr(0, length);
    for (const std::string_view word : {"NaN", "Infinity", "-Infinity"})
      if (!quoted && rest.starts_with(word)) length = word.size(), kept = "null";
    text += kept;
    i += length;
  }
  return text;
}

Json parse_line(const std::string& line, const std::string& where) {
  Json value = Json::parse(line, nullptr, false);
  if (value.is_discarded()) value = Json::parse(without_not_finite(line), nullptr, false);
  if (!value.is_object())
    throw input_error(
        "{}: not a JSON object; write {{\"id\": ..., \"labels\": [...], \"scores\": {{...}}}}",
        where);
  return value;
}

Predictions read_jsonl(const std::filesystem::path& path, const ClassWords& words) {
  LineReader lines(path);
  Predictions predictions;
  std::unordered_set<std::string> seen;
  bool with_scores = false;
  for (std::string line; lines.next(line);) {
    if (trimmed(line).empty()) continue;
    const std::string where = lines.where();
    const Json value = parse_line(line, where);
    if (!value.contains("id")) throw input_error("{}: no \"id\"", where);
    add_document(predictions, seen, word_of(value["id"], "\"id\"", where), where);
    if (!value.contains("labels") || !value["labels"].is_array())
      throw input_error("{}: no \"labels\": [...]", where);
    auto& labels = predictions.labels.emplace_back();
    for (const Json& item : value["labels"]) {
      const std::int32_t c = parse_label(word_of(item, "a label", where), words, where);
      if (std::find(labels.begin(), labels.end(), c) == labels.end()) labels.push_back(c);
    }
    const bool has_scores = value.contains("scores") && !value["scores"].is_null();
    if (predictions.ids.size() == 1) with_scores = has_scores;
    if (has_scores != with_scores)
      throw input_error(
          "{}: {} \"scores\" where the first line has {}; give scores in all lines or in none",
          where, has_scores ? "has" : "has no", with_scores ? "them" : "none");
    if (has_scores)
      predictions.scores.push_back(
          parse_scores(value["scores"], words, predictions.ids.back(), where));
  }
  return predictions;
}

bool is_json_lines(std::filesystem::path path) {
  if (path.extension() == ".gz") path.replace_extension();
  return path.extension() == ".jsonl" || path.extension() == ".json";
}

}  // namespace

Predictions read_predictions(const std::filesystem::path& path, const Taxonomy& taxonomy) {
  const ClassWords words(taxonomy);
  Predictions predictions = is_json_lines(path) ? read_jsonl(path, words) : read_csv(path, words);
  if (predictions.ids.empty())
    throw input_error("{}: no predicted document in this file", path.string());
  return predictions;
}

}  // namespace gpuhpc
