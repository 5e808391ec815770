#include "gpuhpc/pipelines/label/teleclass/student.hpp"

#include <optional>

#include "gpuhpc/comm/run_collectively.hpp"
#include "gpuhpc/io/atomic_file.hpp"
#include "gpuhpc/io/matrix_file.hpp"
#include "gpuhpc/labels/scoring.hpp"
#include "gpuhpc/nn/folder.hpp"
#include "gpuhpc/nn/heads.hpp"
#include "gpuhpc/nn/losses.hpp"
#include "gpuhpc/pipelines/fine_tuning.hpp"
#include "gpuhpc/pipelines/label/model_folder.hpp"
#include "gpuhpc/pipelines/label/smoothing.hpp"
#include "gpuhpc/pipelines/planned_training.hpp"
#include "gpuhpc/text/tokenizer.hpp"

namespace gpuhpc {
namespace {
namespace fs = std::filesystem;

// Fine-tunes `student` and returns the learnt path vectors.
Matrix train_student(const StageContext& c, const StudentStage& s, const TrainedFiles& out,
                     LoadedEncoder& student, const Tokenizer& tokenizer, const Taxonomy& taxonomy) {
  const FineTuning& training = *s.training;
  const FineTuneOptions& tune = training.encoder;
  const TrainOptions& train = training.trainer.train;
  const MappedMatrix classes(s.encoding.classes, "centred"), targets(s.targets->targets);
  const Hdf5File paths(s.posterior.paths);
  const double csls = paths.dataset<double>("csls")[0];
  const auto common = classes.file().dataset<float>("common_part"),
             hubness = paths.dataset<float>("hubness");
  const Matrix start = path_vectors(taxonomy, classes.view());
  const TokenDataset documents(s.encoding.tokens);
  EmbeddingConfig unit = student.model.embedding;
  unit.normalise = true;
  Encoder& encoder = student.encoder;
  encoder.train_top_layers(tune.layers);
  PathClassifier head(start.view(), common, hubness, {s.scoring.scores.temperature, csls},
                      encoder.device());
  ParameterArena arena(
      parameter_groups({{"encoder", tune.encoder_rate, trained_parameters(encoder)},
                        {"head", tune.head_rate, trained_parameters(head)}},
                       train),
      c.comm.size());
  const auto wanted = [&](std::span<const std::int64_t> of) {
    return std::vector{gather_rows(targets.view(), of)};
  };
  const auto loss = [&](const TargetedIds& batch, DropoutSeed seed) {
    const PackedTokens packed = pack_tokens(batch.token_ids, batch.offsets, encoder.device());
    const at::Tensor logits =
        head.logits(encoder.embed(packed, unit, training_forward(encoder, training, seed)));
    return LossSum{soft_target_cross_entropy(logits, to_device(batch.targets[0], encoder.device())),
                   static_cast<double>(batch.size())};
  };
  DocumentTask task({&documents}, std::min(tune.max_length, unit.max_tokens),
                    tokenizer.special().single, loss, wanted);
  TrainContext context = train_context(c, training.trainer, out);
  run_collectively(c.comm, [&] {
    context.foreseen = foreseen_student(encoder.config(), training, c.device, c.comm.size(),
                                        std::min(tune.max_length, unit.max_tokens));
  });
  Trainer(arena, task, train, std::move(context)).run();
  return head.class_vectors();
}

// The student's posterior over the training corpus, smoothed with the teacher's neighbours:
// model/gpuhpc/student_posterior.h5.
void write_student_posterior(const StageContext& c, const StudentStage& s, const Matrix& vectors,
                             const fs::path& model) {
  const Hdf5File paths(s.posterior.paths);
  const auto hubness = paths.dataset<float>("hubness");
  const double csls = paths.dataset<double>("csls")[0];
  write_smoothed_scores(
      c, {s.encoding, s.posterior, s.infer, s.scoring}, model, vectors.rows,
      [&](MatrixView centred, MutableMatrixView posterior) {
        score_paths(centred, vectors.view(), posterior);
        to_logits(posterior, hubness, s.scoring.scores.temperature, csls);
        softmax_rows(posterior);
      },
      model / "gpuhpc" / "student_posterior.h5");
}

}  // namespace

void StudentStage::run(const StageContext& c, const TrainedFiles& out) const {
  const bool with_student = training.has_value();
  std::optional<LoadedEncoder> student;
  std::unique_ptr<Tokenizer> tokenizer;
  Taxonomy classes;
  run_collectively(c.comm, [&] {
    student.emplace(encoder.load(torch_device(c.device)));
    tokenizer = load_tokenizer(encoder.path());
    classes = taxonomy.load();
  });
  on_root(c.comm, [&] {
    copy_taxonomy(taxonomy, out.model);
    copy_teacher(encoding, posterior, *student, out.model);
    if (with_student) return;
    for (const fs::path& file : {out.metrics, out.ranks}) write_text_file(file, "");
    fs::remove_all(c.run_folder / "events");  // of an earlier student
  });
  Matrix vectors;
  if (with_student) vectors = train_student(c, *this, out, *student, *tokenizer, classes);
  on_root(c.comm, [&] {
    save_encoder_folder(out.model, student->encoder, student->model.embedding, student->model);
    if (corpus.is_test)
      write_text_hashes(TokenDataset(encoding.tokens), out.model / "gpuhpc" / "text_hashes.h5");
    if (with_student)
      write_matrix(out.model / "gpuhpc" / "student_paths.h5", std::as_const(vectors).view());
    write_settings(out.model, {.kind = "paths",
                               .student = with_student,
                               .transductive = corpus.is_test,
                               .scoring = scoring});
  });
  if (with_student) write_student_posterior(c, *this, vectors, out.model);
  on_root(c.comm, [&] { seal_model(out.model); });
}

}  // namespace gpuhpc
