#include "gpuhpc/pipelines/embedding/tokens.hpp"

#include "gpuhpc/base/progress.hpp"
#include "gpuhpc/comm/run_collectively.hpp"
#include "gpuhpc/io/json.hpp"
#include "gpuhpc/io/matrix_file.hpp"
#include "gpuhpc/text/tokenizer.hpp"

namespace gpuhpc {
namespace fs = std::filesystem;

void PairTokensStage::run(const StageContext& c, const PairTokenFiles& out) const {
  tokenize_pairs(learnt, test, encoder, shards, c, out);
}

void tokenize_pairs(const ScannedSets& learnt, const ScannedRows& test, const ModelFiles& encoder,
                    const ShardOptions& shards, const StageContext& c, const PairTokenFiles& out) {
  std::unique_ptr<Tokenizer> tokenizer;
  run_collectively(c.comm, [&] { tokenizer = load_tokenizer(encoder.path); });
  Progress progress(c.log, "tokenizing", 0, "rows", c.comm.is_root());
  Json files = Json::object();
  const auto tokenize = [&](const ScannedRows& rows, const fs::path& folder,
                            const std::string& name) {
    on_root(c.comm, [&] {
      create_folder(folder);
      if (!rows.values.empty())
        write_arrays(folder / values_file, {{"values", std::span<const float>(rows.values)}});
    });
    if (!rows.scan) return;
    std::vector<fs::path> folders;
    for (std::size_t i = 0; i < rows.scan->options.rows->texts.size(); ++i)
      folders.push_back(folder / std::to_string(i));
    prepare_shards(*rows.scan, *tokenizer, folders, shards, Texts::keep, c.comm, c.device.threads,
                   [&](std::int64_t done) {
                     progress.advance(done);
                     c.leave_if_asked();
                   });
    const BadRows& bad = rows.scan->bad_rows;
    files[name] = {{"folder", out.name_of(folder)},
                   {"rows", rows.rows()},
                   {"learns", rows.learns},
                   {"left_out", bad.count},
                   {"first_left_out", bad.first}};
  };
  on_root(c.comm, [&] {
    for (const fs::path& folder : {out.train, out.validation}) create_folder(folder);
  });
  for (std::size_t i = 0; i < learnt.sets.size(); ++i) {
    const auto& [name, train, validation] = learnt.sets[i];
    const std::string of = name.empty() ? "" : "." + name;
    tokenize(train, out.train_of(i), "train" + of);
    tokenize(validation, out.validation_of(i), "validation" + of);
  }
  tokenize(test, out.test, "test");
  progress.finish();
  on_root(c.comm, [&] { write_json(out.rows, files); });
}

}  // namespace gpuhpc
