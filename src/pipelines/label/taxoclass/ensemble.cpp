#include "gpuhpc/pipelines/label/taxoclass/ensemble.hpp"

#include "gpuhpc/comm/run_collectively.hpp"
#include "gpuhpc/data/token_shards.hpp"
#include "gpuhpc/pipelines/label/model_folder.hpp"

namespace gpuhpc {

void write_ensemble(const StageContext& c, const ScoredCorpus& corpus, const EncoderFiles& teacher,
                    bool transductive, const std::optional<PathModel>& student,
                    const std::filesystem::path& model) {
  on_root(c.comm, [&] {
    write_settings(model, {.kind = "paths",
                           .student = student.has_value(),
                           .transductive = transductive,
                           .classes = student.has_value(),
                           .scoring = corpus.scoring});
    copy_teacher(corpus.encoding, corpus.posterior, teacher.load(), model);
    if (transductive)
      write_text_hashes(TokenDataset(corpus.encoding.tokens), model / "gpuhpc" / "text_hashes.h5");
  });
  if (student)
    write_smoothed_scores(
        c, corpus, model, student->vectors.rows,
        [&](MatrixView centred, MutableMatrixView posterior) {
          student->posterior(centred, posterior);
        },
        model / "gpuhpc" / "student_posterior.h5");
}

}  // namespace gpuhpc
