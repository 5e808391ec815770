#include "gpuhpc/pipelines/embedding/tokens.hpp"

#include "gpuhpc/base/progress.hpp"
#include "gpuhpc/comm/run_collectively.hpp"
#include "gpuhpc/io/atomic_file.hpp"
#include "gpuhpc/io/matrix_file.hpp"
#include "gpuhpc/text/tokenizer.hpp"

namespace gpuhpc {
namespace fs = std::filesystem;

void PairTokensStage::run(const StageContext& c, const PairTokenFiles& out) const {
  std::unique_ptr<Tokenizer> tokenizer;
  run_collectively(c.comm, [&] { tokenizer = load_tokenizer(encoder.path); });
  Progress progress(c.log, "tokenizing", 0, "texts", c.comm.is_root());
  const auto tokenize = [&](const ScannedRows& rows, const fs::path& folder) {
    on_root(c.comm, [&] {
      create_folder(folder);
      if (!rows.scores.empty())
        write_arrays(folder / scores_file, {{"scores", std::span<const float>(rows.scores)}});
    });
    for (std::size_t i = 0; i < rows.columns.size(); ++i)
      prepare_shards(rows.columns[i], *tokenizer, folder / std::to_string(i), shards, Texts::keep,
                     c.comm, c.device.threads, [&](std::int64_t texts) {
                       progress.advance(texts);
                       c.leave_if_asked();
                     });
  };
  tokenize(train, out.train);
  tokenize(validation, out.validation);
  tokenize(test, out.test);
  progress.finish();
}

}  // namespace gpuhpc
