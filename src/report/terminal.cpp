#include "gpuhpc/report/terminal.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "gpuhpc/base/progress.hpp"

namespace gpuhpc {
namespace {

struct FigureText {
  const char *name, *title, *about;
  bool headline;
};

constexpr std::array<FigureText, 26> figure_texts = {{
    {"example_f1", "Example-F1", "F1 of each document's label set, averaged over documents", true},
    {"example_precision", "Example-P",
     "share of a document's predicted classes that are right, averaged", false},
    {"example_recall", "Example-R", "share of a document's gold classes that were found, averaged",
     false},
    {"micro_f1", "micro-F1", "F1 over all document-class pairs", true},
    {"micro_precision", "micro-P", "share of all predicted pairs that are right", false},
    {"micro_recall", "micro-R", "share of all gold pairs that were found", false},
    {"macro_f1", "macro-F1", "F1 of each class, averaged over all classes: rare ones count as much",
     true},
    {"macro_precision", "macro-P", "precision of each class, averaged", false},
    {"macro_recall", "macro-R", "recall of each class, averaged", false},
    {"macro_f1_gold_classes", "macro-F1, gold classes",
     "macro-F1 over the classes that occur in gold", false},
    {"exact_match", "exact match", "share of documents with exactly the gold classes", true},
    {"hamming_loss", "Hamming loss", "share of wrong document-class decisions; smaller is better",
     false},
    {"hierarchical_f1", "hierarchical F1", "F1 after adding all ancestors on both sides", true},
    {"hierarchical_precision", "hierarchical P", "precision after adding all ancestors", false},
    {"hierarchical_recall", "hierarchical R", "recall after adding all ancestors", false},
    {"precision_at_1", "P@1", "share of documents whose best class is right", true},
    {"precision_at_3", "P@3", "right ones among the best 3, over min(3, gold classes)", true},
    {"precision_at_3_plain", "P@3, plain", "right ones among the best 3, over 3", false},
    {"mrr_filtered", "MRR, filtered", "1/rank of each gold class, other gold classes not counted",
     true},
    {"mrr_raw", "MRR, raw",
     "1/rank of each gold class among all; below 1 with several gold classes", false},
    {"top5_accuracy", "top-5 accuracy", "share of documents with a gold class among the best 5",
     true},
    {"ece_best", "ECE, best class",
     "distance between a best class's score and the share that is right", false},
    {"ece_best_by_chance", "ECE, best class, by chance",
     "what it would be with exactly right probabilities on as many documents", false},
    {"ece_labels", "ECE, predicted classes",
     "distance between a predicted class's score and the share that is right", false},
    {"ece_labels_by_chance", "ECE, predicted classes, by chance",
     "what it would be with exactly right probabilities on as many documents", false},
    {"aurc", "AURC",
     "share of wrong best classes among the surest documents, averaged over how many are taken",
     false},
}};

const FigureText* find_text(const std::string& name) {
  const auto found = std::find_if(figure_texts.begin(), figure_texts.end(),
                                  [&](const FigureText& text) { return name == text.name; });
  return found == figure_texts.end() ? nullptr : &*found;
}

std::size_t width(const std::string& text) {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}

std::string three_digits(const std::optional<double>& value) {
  return value ? fmt::format("{:.3f}", *value) : "-";
}

}  // namespace

std::string format_table(const std::vector<std::string>& header,
                         const std::vector<std::vector<std::string>>& rows) {
  std::vector<std::size_t> widths;
  for (const std::string& title : header) widths.push_back(width(title));
  for (const auto& row : rows)
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], width(row[i]));
  std::string table;
  const auto add = [&](const std::vector<std::string>& cells) {
    std::string line;
    for (std::size_t i = 0; i < cells.size(); ++i) {
      const std::string padding(widths[i] - width(cells[i]), ' ');
      line += i == 0 ? cells[i] + padding : "  " + padding + cells[i];
    }
    line.erase(line.find_last_not_of(' ') + 1);
    table += line + '\n';
  };
  add(header);
  std::vector<std::string> rule;
  for (const std::size_t w : widths) rule.emplace_back(w, '-');
  add(rule);
  for (const auto& row : rows) add(row);
  return table;
}

std::string format_metrics(const Evaluation& evaluation, bool all) {
  std::vector<std::vector<std::string>> rows;
  for (const Figure& figure : evaluation.figures) {
    if (!all && !figure_is_headline(figure.name)) continue;
    const std::string interval =
        figure.low ? fmt::format("{:.3f} .. {:.3f}", *figure.low, *figure.high) : "-";
    rows.push_back({figure_title(figure.name), three_digits(figure.value), interval});
  }
  return format_table({"measure", "value", "95% interval"}, rows);
}

std::string format_levels(const Evaluation& evaluation) {
  std::vector<std::vector<std::string>> rows;
  for (std::size_t k = 0; k < evaluation.levels.size(); ++k) {
    const PairCounts& level = evaluation.levels[k];
    rows.push_back({std::to_string(k + 1), format_count(level.gold), format_count(level.predicted),
                    format_count(level.correct), three_digits(level.precision()),
                    three_digits(level.recall()), three_digits(level.f1())});
  }
  return format_table({"level", "gold", "predicted", "right", "P", "R", "F1"}, rows);
}

std::string format_stages(const std::vector<ReportStage>& stages) {
  std::vector<std::string> header = {"stage", "time", "MiB", ""};
  std::vector<std::vector<std::string>> rows;
  ReportStage all{.name = "all stages"};
  for (const ReportStage& stage : stages) {
    all.seconds += stage.seconds;
    all.memory = std::max(all.memory, stage.memory);
    all.gpu_memory = std::max(all.gpu_memory, stage.gpu_memory);
  }
  const auto mebibytes = [](std::int64_t bytes) {  // runs of earlier versions did not note them
    return bytes > 0 ? format_count(bytes >> 20) : "";
  };
  const auto add = [&](const ReportStage& stage, const char* word) {
    rows.push_back({stage.name, format_duration(stage.seconds), mebibytes(stage.memory), word});
    if (all.gpu_memory > 0) rows.back().insert(rows.back().end() - 1, mebibytes(stage.gpu_memory));
  };
  for (const ReportStage& stage : stages) add(stage, stage.skipped ? "reused" : "done");
  add(all, "");
  if (all.gpu_memory > 0) header.insert(header.end() - 1, "GPU MiB");
  return format_table(header, rows);
}

std::string format_count(std::int64_t count) {
  std::string digits = std::to_string(count);
  for (std::size_t i = digits.size(); i > 3 + (count < 0 ? 1u : 0u);) {
    i -= 3;
    digits.insert(i, ",");
  }
  return digits;
}

std::string figure_title(const std::string& name) {
  if (const FigureText* const text = find_text(name)) return text->title;
  if (name.starts_with("level_") && name.ends_with("_f1"))
    return "F1 at level " + name.substr(6, name.size() - 9);
  std::string title = name;
  std::replace(title.begin(), title.end(), '_', ' ');
  return title;
}

bool figure_is_headline(const std::string& name) {
  const FigureText* const text = find_text(name);
  return text && text->headline;
}

std::string figure_group(const std::string& name) {
  if (name.starts_with("example_") || name == "exact_match" || name == "hamming_loss")
    return "Label sets, document by document";
  if (name.starts_with("ece_") || name == "aurc") return "What the scores are worth";
  if (name.starts_with("micro_") || name.starts_with("macro_")) return "Labels, over all documents";
  if (name.starts_with("hierarchical_") || name.starts_with("level_")) return "In the hierarchy";
  return find_text(name) ? "Ranking of the classes" : "";
}

std::string figure_about(const std::string& name) {
  if (const FigureText* const text = find_text(name)) return text->about;
  if (name.starts_with("level_")) return "F1 over the classes at this depth alone";
  return "";
}

}  // namespace gpuhpc
