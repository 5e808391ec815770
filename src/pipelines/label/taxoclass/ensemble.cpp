#include "gpuhpc/pipelines/label/taxoclass/ensemble.hpp"

#include "gpuhpc/comm/run_collectively.hpp"
#include "gpuhpc/data/token_shards.hpp"
#include "gpuhpc/labels/scoring.hpp"
#include "gpuhpc/pipelines/label/model_folder.hpp"

namespace gpuhpc {

void write_ensemble(const StageContext& c, const ScoredCorpus& corpus, const EncoderFiles& teacher,
                    bool transductive, const ClassGraphHead& head, bool student,
                    const std::filesystem::path& model) {
  on_root(c.comm, [&] {
    write_settings(model, {.kind = "paths",
                           .student = student,
                           .transductive = transductive,
                           .classes = student,
                           .scoring = corpus.scoring});
    copy_teacher(corpus.encoding, corpus.posterior, teacher.load(), model);
    if (transductive)
      write_text_hashes(TokenDataset(corpus.encoding.tokens), model / "gpuhpc" / "text_hashes.h5");
  });
  if (!student) return;
  Taxonomy taxonomy;
  run_collectively(c.comm, [&] { taxonomy = load_taxonomy(model); });
  const Matrix class_vectors = head.class_vectors();
  const PathModel paths = leaf_odds(taxonomy, class_vectors.view(), head.bias());
  write_smoothed_scores(
      c, corpus, model, paths.vectors.rows,
      [&](MatrixView centred, MutableMatrixView posterior) { paths.posterior(centred, posterior); },
      model / "gpuhpc" / "student_posterior.h5");
}

}  // namespace gpuhpc
