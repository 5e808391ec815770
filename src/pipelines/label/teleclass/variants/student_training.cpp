#include "gpuhpc/pipelines/label/teleclass/variants/student_training.hpp"

#include <optional>

#include "gpuhpc/comm/together.hpp"
#include "gpuhpc/io/atomic_file.hpp"
#include "gpuhpc/io/matrix_file.hpp"
#include "gpuhpc/labels/scoring.hpp"
#include "gpuhpc/nn/folder.hpp"
#include "gpuhpc/nn/heads.hpp"
#include "gpuhpc/nn/losses.hpp"
#include "gpuhpc/pipelines/label/fine_tuning.hpp"
#include "gpuhpc/pipelines/label/model_folder.hpp"
#include "gpuhpc/pipelines/label/smoothed_scores.hpp"
#include "gpuhpc/pipelines/label/teacher_files.hpp"
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
  EmbeddingConfig unit = student.model.embedding;
  unit.normalise = true;
  Encoder& encoder = student.encoder;
  encoder.train_top_layers(o.fine_tune.layers);
  PathClassifier head(start.view(), document_mean, hubness,
                      {o.scoring.temperature, o.scoring.csls, o.scoring.centring},
                      encoder.device());
  ParameterArena arena(
      parameter_groups({{"encoder", o.fine_tune.encoder_rate, trained_parameters(encoder)},
                        {"head", o.fine_tune.head_rate, trained_parameters(head)}},
                       o.train),
      c.comm.size());
  const auto loss = [&](const PackedIds& batch, DropoutSeed seed) {
    const PackedTokens packed = pack_tokens(batch.token_ids, batch.offsets, encoder.device());
    const at::Tensor logits =
        head.logits(encoder.embed(packed, unit, training_forward(encoder, o, seed)));
    return LossSum{soft_target_cross_entropy(
                       logits, gather_rows(targets.view(), batch.documents, encoder.device())),
                   static_cast<double>(batch.size())};
  };
  DocumentTask task({&documents}, std::min(o.fine_tune.max_length, unit.max_tokens),
                    tokenizer.cls_id(), tokenizer.sep_id(), loss);
  Trainer(arena, task, o.train, train_context(c, o)).run();
  return head.class_vectors();
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
      write_text_hashes(o.input.corpus, layout, model / "gpuhpc" / "text_hashes.h5");
    if (with_student)
      write_matrix(model / "gpuhpc" / "student_paths.h5", std::as_const(vectors).view());
    write_settings(model, settings);
  });
  if (with_student) write_student_posterior(c, o, vectors, model);
}

}  // namespace gpuhpc
