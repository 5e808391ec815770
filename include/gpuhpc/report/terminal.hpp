#pragma once
// Aligned tables for the terminal.
#include <string>
#include <vector>

#include "gpuhpc/eval/metrics.hpp"

namespace gpuhpc {

struct ReportStage {
  std::string name;
  double seconds = 0;
  bool skipped = false;  // its outputs were there already; the figures are those of then
  std::int64_t memory = 0, gpu_memory = 0;  // bytes at most, of the rank that needed most
};

// First column left, the others right; widths count characters, not bytes. Lines end in '\n'.
std::string format_table(const std::vector<std::string>& header,
                         const std::vector<std::vector<std::string>>& rows);

// The figures that `run` and `evaluate` print, with intervals; `-` where one cannot be computed.
// `all`: every figure.
std::string format_metrics(const Evaluation& evaluation, bool all = false);
std::string format_levels(const Evaluation& evaluation);
std::string format_stages(const std::vector<ReportStage>& stages);

std::string format_count(std::int64_t count);       // "1,234,567"
std::string figure_title(const std::string& name);  // "precision_at_1" -> "P@1"
std::string figure_about(
    const std::string& name);  // one clause, for people who do not know the measure
std::string figure_group(const std::string& name);  // the heading above it; "" for the others
bool figure_is_headline(const std::string& name);   // among the few that a summary shows

}  // namespace gpuhpc
