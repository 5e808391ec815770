#include "gpuhpc/app/command.hpp"
#include "gpuhpc/app/run_folder.hpp"
#include "gpuhpc/base/error.hpp"
#include "gpuhpc/comm/run_collectively.hpp"
#include "gpuhpc/io/atomic_file.hpp"
#include "gpuhpc/pipelines/label/given_labels.hpp"
#include "gpuhpc/pipelines/label/model_folder.hpp"
#include "gpuhpc/pipelines/label/selection.hpp"

namespace gpuhpc {
namespace {
namespace fs = std::filesystem;

// The shards of a run's training corpus.
fs::path tokens_of(const RunFolder& run) {
  const fs::path tokens = run.stage_folder("encoding") / "tokens";
  if (fs::exists(tokens)) return tokens;
  throw input_error("{}: the stage `encoding` of this run is not there; run it again",
                    run.path().string());
}

}  // namespace

// Documents of a finished run's training corpus for a person to label, as CSV.
void select_command(CommandContext& c) {
  const Options& o = c.options;
  const fs::path model = fs::path(o.run.dir) / "model";
  run_collectively(c.comm, [&] {
    if (!fs::exists(model))
      throw input_error("{}: there is no finished run in it; name one with --run.dir", o.run.dir);
  });
  open_model(model, c.comm, c.log);
  on_root(c.comm, [&] {
    const RunFolder run(o.run.dir);
    if (!run.missing().empty())
      throw input_error("{}: this run was started again and is not finished; finish it first",
                        o.run.dir);
    const std::string& file = o.output.file;
    if (file != "-" && fs::path(file).extension() != ".csv")
      throw usage_error("--output.file {}: a table for a spreadsheet; give it a name in .csv",
                        file);
    if (file != "-" && fs::is_regular_file(file) && holds_labels(file))
      throw usage_error(
          "{}: classes are filled in there, or it is no table of select's; select would write "
          "over it: give another --output.file",
          file);
    const std::string csv =
        documents_to_label(model, tokens_of(run), o.shared.input.labels, o.select.documents);
    if (file == "-") {
      fmt::print("{}", csv);
      return;
    }
    write_text_file(file, csv);
    c.log->info(
        "{}: fill in the column `labels` (names or ids, with commas between) of as many rows as "
        "you like, then `gpuhpc run --input.labels {}`, with the run's other options",
        file, file);
  });
}

}  // namespace gpuhpc
