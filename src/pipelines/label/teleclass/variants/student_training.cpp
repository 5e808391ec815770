#include "gpuhpc/pipelines/label/teleclass/variants/student_training.hpp"

#include <optional>

#include "gpuhpc/comm/together.hpp"
#include "gpuhpc/io/atomic_file.hpp"
#include "gpuhpc/io/matrix_file.hpp"
#include "gpuhpc/labels/scoring.hpp"
#include "gpuhpc/nn/folder.hpp"
#include "gpuhpc/nn/heads.hpp"
#include "gpuhpc/nn/losses.hpp"
#include "gpuhpc/pipelines/label/model_folder.hpp"
#include "gpuhpc/pipelines/label/replicas.hpp"
#include "gpuhpc/pipelines/label/smoothed_scores.hpp"
#include "gpuhpc/pipelines/label/teacher_files.hpp"
#include "gpuhpc/pipelines/label/training_run.hpp"
#include "gpuhpc/text/tokenizer.hpp"

namespace gpuhpc {
namespace {
namespace fs = std::filesystem;

// Fine-tunes `student` and returns the learnt path vectors.
Matrix train_student(const StageContext& c, const TeleclassPipelineOptions& o,
                     LoadedEncoder& student, const Tokenizer& tokenizer, const Taxonomy& taxonomy) {
  const MappedMatrix classes(c.folder_of("encoding") / "classes.h5", "centred"),
      targets(c.folder_of("hierarchy") / "targets.h5");
  const Hdf5File paths(c.folder_of("refinement") / "paths.h5");
  const auto document_mean = classes.file().dataset<float>("document_mean"),
             hubness = paths.dataset<float>("hubness");
  const Matrix start = path_vectors(taxonomy, classes.view());
  const TokenDataset documents(c.folder_of("encoding") / "tokens");
  const DocumentSource source({&documents},
                              std::min(o.train.max_length, student.model.embedding.max_tokens),
                              tokenizer.cls_id(), tokenizer.sep_id());
  EmbeddingConfig unit = student.model.embedding;
  unit.normalise = true;
  Matrix learnt;
  run_replicas(c, o, student, [&](const StageContext& replica, LoadedEncoder& model) {
    Encoder& encoder = model.encoder;
    PathClassifier head(start.view(), document_mean, hubness,
                        {o.scoring.temperature, o.scoring.csls, o.scoring.centring},
                        encoder.device());
    ParameterArena arena(
        encoder_and_head(encoder, o.train.layers, trained_parameters(head), o.train),
        replica.comm.size());
    const Loss loss = [&](const PackedIds& batch, std::uint64_t seed) {
      const PackedTokens packed = pack_tokens(batch.token_ids, batch.offsets, encoder.device());
      const at::Tensor logits =
          head.logits(encoder.embed(packed, unit, training_forward(encoder, o.train, seed)));
      return LossSum{soft_target_cross_entropy(
                         logits, gather_rows(targets.view(), batch.documents, encoder.device())),
                     static_cast<double>(batch.size())};
    };
    TrainingRun run(replica, o, arena, source);
    Trainer trainer(arena, run.learnt(), loss, o.train, o.parallel, replica.comm, run.hooks(),
                    run.between_gpus());
    run.resume(trainer);
    run.finish(trainer, trainer.run());
    if (&model == &student) learnt = head.class_vectors();
  });
  return learnt;
}

// The student's posterior over the training corpus, smoothed with the teacher's neighbours:
// model/gpuhpc/student_posterior.h5.
void write_student_posterior(const StageContext& c, const TeleclassPipelineOptions& o,
                             const Matrix& vectors, const fs::path& model) {
  const Hdf5File paths(c.folder_of("refinement") / "paths.h5");
  const auto hubness = paths.dataset<float>("hubness");
  write_smoothed_scores(
      c, o, {c.folder_of("encoding"), c.folder_of("refinement")}, model, vectors.rows,
      [&](MatrixView centred, MutableMatrixView posterior) {
        score_paths(centred, vectors.view(), posterior);
        to_logits(posterior, hubness, o.scoring.temperature, o.scoring.csls);
        softmax_rows(posterior);
      },
      model / "gpuhpc" / "student_posterior.h5");
}

}  // namespace

void train_path_model(const StageContext& c, const TeleclassPipelineOptions& o,
                      const InputLayout& layout) {
  const fs::path model = c.folder / "model";
  const bool with_student = o.teleclass.head == "student";
  std::optional<LoadedEncoder> encoder;
  std::unique_ptr<Tokenizer> tokenizer;
  Taxonomy taxonomy;
  together(c.comm, [&] {
    encoder.emplace(load_encoder(o.model.encoder, torch_device(c.device)));
    tokenizer = load_tokenizer(o.model.encoder);
    taxonomy = Taxonomy::load(layout.labels, layout.hierarchy);
  });
  on_root(c.comm, [&] {
    copy_taxonomy(layout, model);
    copy_teacher(c.folder_of("encoding"), c.folder_of("refinement"), *encoder, model);
    for (const char* name : {"metrics.jsonl", "ranks.jsonl"})
      write_text_file(c.folder / name, "");                      // outputs without student, too
    if (!with_student) fs::remove_all(c.run_folder / "events");  // of an earlier one
  });
  ClassifierSettings settings{"paths",
                              with_student,
                              layout.test_serves_as_train,
                              o.scoring.temperature,
                              o.scoring.csls,
                              o.scoring.lexical,
                              o.scoring.centring,
                              .5,
                              o.scoring.smoothing_rounds > 0,
                              o.neighbours.k,
                              o.tfidf.longest_ngram,
                              o.tfidf.english_stop_words};
  Matrix vectors;
  if (with_student) vectors = train_student(c, o, *encoder, *tokenizer, taxonomy);
  on_root(c.comm, [&] {
    save_encoder_folder(model, encoder->encoder, encoder->model.embedding, encoder->model);
    if (layout.test_serves_as_train)
      write_text_hashes(TokenDataset(c.folder_of("encoding") / "tokens"),
                        model / "gpuhpc" / "text_hashes.h5");
    if (with_student)
      write_matrix(model / "gpuhpc" / "student_paths.h5", std::as_const(vectors).view());
    write_settings(model, settings);
  });
  if (with_student) write_student_posterior(c, o, vectors, model);
}

}  // namespace gpuhpc
