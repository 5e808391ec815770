#pragma once
// The report of one run or of several, out of what their folders hold: the data of report/page.hpp.
#include <filesystem>
#include <string>
#include <vector>

#include "gpuhpc/app/ledger.hpp"
#include "gpuhpc/app/run_job.hpp"
#include "gpuhpc/io/json.hpp"

namespace gpuhpc {

// run.json: what a run folder says of the launch that wrote it last. `times` are those of the
// stages that this launch has been through.
void write_run_facts(const CommandContext& context, const Job& job,
                     const std::vector<StageTime>& times);

// Of a run that is unfinished, what is there, and a warning that says what is not. Throws
// input_error naming the file, and in it the line, for a folder that is no run folder or a broken
// file in it.
Json make_run_report(const std::filesystem::path& run);
// Two or more runs side by side. Same errors.
Json compare_runs(const std::vector<std::filesystem::path>& runs);

}  // namespace gpuhpc
