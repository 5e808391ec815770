#include "gpuhpc/pipelines/label/test_encoding.hpp"

#include "gpuhpc/base/progress.hpp"
#include "gpuhpc/comm/run_collectively.hpp"
#include "gpuhpc/io/atomic_file.hpp"
#include "gpuhpc/pipelines/label/model_encoders.hpp"

namespace gpuhpc {

void TestEncodingStage::run(const StageContext& c, const TestEncodingFiles& out) const {
  const ClassifierSettings settings = open_model(trained.model, c.comm, c.log);
  on_root(c.comm, [&] {
    create_folder(out.tokens);
    create_folder(out.vectors);
  });
  if (settings.transductive) {
    c.log->info("the test texts are the training corpus, whose scores are known: none is encoded");
    return;
  }
  const ModelEncoders encoders(trained.model, settings, infer, c.device, c.comm, c.log);
  if (!corpus.is_test) {
    Progress progress(c.log, "tokenizing", 0, "documents", c.comm.is_root());
    prepare_shards(corpus.scan, encoders.tokenizer(), out.tokens, shards, Texts::keep, c.comm,
                   c.device.threads, [&](std::int64_t n) {
                     progress.advance(n);
                     c.leave_if_asked();
                   });
  }
  const TokenDataset documents(corpus.is_test ? encoding.tokens : out.tokens);
  encoders.encode(documents, out.vectors, c.comm, [&] { c.leave_if_asked(); });
}

}  // namespace gpuhpc
