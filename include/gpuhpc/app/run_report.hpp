#pragma once
// Collects what a finished run folder holds into the report's model.
#include <filesystem>
#include <vector>

#include "gpuhpc/app/command.hpp"
#include "gpuhpc/app/ledger.hpp"
#include "gpuhpc/data/layout.hpp"
#include "gpuhpc/report/html.hpp"

namespace gpuhpc {

ReportModel make_run_report(const CommandContext& context, const std::filesystem::path& run, const InputLayout& layout, const Taxonomy& taxonomy,
                            const std::vector<StageTime>& times, bool evaluated);

}  // namespace gpuhpc
