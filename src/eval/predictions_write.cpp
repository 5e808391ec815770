#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "gpuhpc/base/error.hpp"
#include "gpuhpc/eval/predictions.hpp"
#include "gpuhpc/io/atomic_file.hpp"

namespace gpuhpc {
namespace {

std::string csv_field(const std::string& text) {
  if (text.find_first_of(",\"\n\r") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"') quoted += '"';
    quoted += c;
  }
  return quoted + '"';
}

std::string json_string(const std::string& text) { return nlohmann::json(text).dump(); }

}  // namespace

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

void write_submission(const std::filesystem::path& path, const Predictions& predictions,
                      const SubmissionOptions& options) {
  AtomicFile file(path);
  file.write(submission_header(options) + '\n');
  for (std::size_t d = 0; d < predictions.ids.size(); ++d)
    file.write(submission_line(predictions.ids[d], predictions.labels[d]) + '\n');
  file.commit();
}

void write_predictions(const std::filesystem::path& path, const Predictions& predictions,
                       const Taxonomy& taxonomy) {
  const ClassWords words(taxonomy);
  AtomicFile file(path);
  for (std::size_t d = 0; d < predictions.ids.size(); ++d) {
    std::optional<std::span<const ClassScore>> scores;
    if (!predictions.scores.empty()) scores = predictions.scores[d];
    file.write(prediction_line(predictions.ids[d], predictions.labels[d], scores, words) + '\n');
  }
  file.commit();
}

}  // namespace gpuhpc
