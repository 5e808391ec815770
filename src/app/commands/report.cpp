#include "gpuhpc/app/command.hpp"
#include "gpuhpc/app/outputs.hpp"
#include "gpuhpc/app/run_report.hpp"
#include "gpuhpc/base/error.hpp"
#include "gpuhpc/comm/run_collectively.hpp"
#include "gpuhpc/report/page.hpp"

namespace gpuhpc {
namespace {

constexpr std::size_t most_runs = 8;  // more lines in one chart cannot be told apart

std::vector<std::filesystem::path> folders_of(const std::string& list) {
  std::vector<std::filesystem::path> folders;
  for (const std::string& folder : config::split_list(list)) {
    if (folder.empty())
      throw usage_error("--report.runs {}: a folder is missing beside a comma; write FOLDER,FOLDER",
                        list);
    folders.emplace_back(folder);
  }
  if (folders.size() > most_runs)
    throw usage_error(
        "--report.runs names {} folders; {} runs at most can be told apart on one page",
        folders.size(), most_runs);
  return folders;
}

}  // namespace

void report_command(CommandContext& c) {
  const Options& o = c.options;
  on_root(c.comm, [&] {
    const auto runs = folders_of(o.report.runs.empty() ? o.run.dir : o.report.runs);
    const std::filesystem::path page = !o.report.page.empty() ? std::filesystem::path(o.report.page)
                                       : runs.size() == 1     ? runs[0] / "report.html"
                                                              : "report.html";
    check_report(page, "report.output");
    const Json report = runs.size() == 1 ? make_run_report(runs[0]) : compare_runs(runs);
    write_report(page, report);
    for (const Json& warning : report.at("warnings")) c.log->warn("{}", warning.get<std::string>());
    fmt::print("report: {}\n", page.string());
  });
}

}  // namespace gpuhpc
