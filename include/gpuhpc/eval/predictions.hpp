#pragma once
// Predicted labels in files: submission.csv (labels alone) and predictions.jsonl (labels and class
// scores).
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "gpuhpc/eval/documents.hpp"
#include "gpuhpc/eval/options.hpp"
#include "gpuhpc/labels/taxonomy.hpp"

namespace gpuhpc {

// N documents in file order.
struct Predictions {
  std::vector<std::string> ids;  // (N) unique
  std::vector<std::vector<std::int32_t>>
      labels;  // (N) unique within a document, in the order of the file
  std::vector<std::vector<ClassScore>>
      scores;  // (N), or (0) when the file has none; in the order of sort_scores
};

// Reads either format, told apart by the name (.json, .jsonl, with or without .gz: JSON lines;
// anything else: CSV). CSV: a header; the id column is called `pid` or `id`, the other one `labels`
// or `label`; more columns are ignored; labels are "c1,c2,c3" in quotes, ids or names. JSON lines:
// {"id", "labels": [...], "scores": {class: p}}, scores in all lines or in none. Throws input_error
// naming file and line.
Predictions read_predictions(const std::filesystem::path& path, const Taxonomy& taxonomy);

// A field of a CSV file, quoted where it must be.
std::string csv_field(const std::string& text);

// One line of each format, without line end: for writers that stream.
std::string submission_header(const SubmissionOptions& options);
std::string submission_line(const std::string& id, std::span<const std::int32_t> labels);
std::string prediction_line(const std::string& id, std::span<const std::int32_t> labels,
                            std::optional<std::span<const ClassScore>> scores,
                            const ClassWords& words);

}  // namespace gpuhpc
