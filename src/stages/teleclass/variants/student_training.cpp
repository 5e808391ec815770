#include "gpuhpc/stages/teleclass/variants/student_training.hpp"

#include <optional>

#include "gpuhpc/comm/together.hpp"
#include "gpuhpc/io/atomic_file.hpp"
#include "gpuhpc/io/checksum.hpp"
#include "gpuhpc/io/json.hpp"
#include "gpuhpc/io/matrix_file.hpp"
#include "gpuhpc/labels/scoring.hpp"
#include "gpuhpc/nn/folder.hpp"
#include "gpuhpc/nn/heads.hpp"
#include "gpuhpc/nn/losses.hpp"
#include "gpuhpc/stages/classify/corpus_blocks.hpp"
#include "gpuhpc/stages/classify/model_folder.hpp"
#include "gpuhpc/stages/classify/path_model.hpp"
#include "gpuhpc/stages/classify/smoothing.hpp"
#include "gpuhpc/stages/classify/text_encoder.hpp"
#include "gpuhpc/stages/teleclass/variants/replicas.hpp"
#include "gpuhpc/stages/teleclass/variants/training_setup.hpp"
#include "gpuhpc/text/tokenizer.hpp"

namespace gpuhpc {
namespace {
namespace fs = std::filesystem;

// The model/ folder's parts that come straight from earlier phases.
void copy_teacher(const StageContext& c, const LoadedEncoder& teacher, const fs::path& model) {
  const fs::path refinement = c.folder_of("refinement"), encoding = c.folder_of("encoding");
  for (const char* name : {"paths.h5", "posterior.h5", "tfidf.h5", "tfidf_rows.h5"}) gpuhpc::copy_file(refinement / name, model / "gpuhpc" / name);
  for (const char* name : {"centred.h5", "classes.h5"}) gpuhpc::copy_file(encoding / name, model / "gpuhpc" / name);
  save_encoder_folder(model / "gpuhpc" / "teacher", teacher.encoder, teacher.model.embedding, teacher.model);
}

// Hashes of the training texts: where the test texts served as the corpus, a document keeps what the corpus gave it.
void write_text_hashes(const TeleclassPipelineOptions& o, const InputLayout& layout, const fs::path& path) {
  std::vector<std::int64_t> hashes;
  CorpusReader reader(layout.train_corpus, o.input.corpus);
  for (Document document; reader.next(document);) hashes.push_back(static_cast<std::int64_t>(xxh3(std::as_bytes(std::span(document.text)))));
  write_arrays(path, {{"hashes", std::span<const std::int64_t>(hashes)}});
}

// Fine-tunes `student` and returns the learnt path vectors.
Matrix train_student(const StageContext& c, const TeleclassPipelineOptions& o, LoadedEncoder& student, const Tokenizer& tokenizer, const Taxonomy& taxonomy) {
  const MappedMatrix classes(c.folder_of("encoding") / "classes.h5", "centred"), targets(c.folder_of("hierarchy") / "targets.h5");
  const Hdf5File paths(c.folder_of("refinement") / "paths.h5");
  const auto document_mean = classes.file().dataset<float>("document_mean"), hubness = paths.dataset<float>("hubness");
  const Matrix start = path_vectors(taxonomy, classes.view());
  const TokenDataset documents(c.folder_of("encoding") / "tokens");
  const DocumentSource source({&documents}, std::min(o.train.max_length, student.model.embedding.max_tokens), tokenizer.cls_id(), tokenizer.sep_id());
  EmbeddingConfig unit = student.model.embedding;
  unit.normalise = true;
  Matrix learnt;
  run_replicas(c, o, student, [&](const StageContext& replica, LoadedEncoder& model) {
    Encoder& encoder = model.encoder;
    PathClassifier head(start.view(), document_mean, hubness, {o.teleclass.temperature, o.teleclass.csls, o.teleclass.centring}, encoder.device());
    ParameterArena arena(encoder_and_head(encoder, o.train.layers, trained_parameters(head), o.train), replica.comm.size());
    const Loss loss = [&](const PackedIds& batch, std::uint64_t seed) {
      const PackedTokens packed = pack_tokens(batch.token_ids, batch.offsets, encoder.device());
      const at::Tensor logits = head.logits(encoder.embed(packed, unit, training_forward(encoder, o.train, seed)));
      return LossSum{soft_target_cross_entropy(logits, gather_rows(targets.view(), batch.documents, encoder.device())), static_cast<double>(batch.size())};
    };
    run_training(replica, o, arena, source, loss);
    if (&model == &student) learnt = head.class_vectors();
  });
  return learnt;
}

// The student's posterior over the training corpus, smoothed with the teacher's neighbours: model/gpuhpc/student_posterior.h5.
void write_student_posterior(const StageContext& c, const TeleclassPipelineOptions& o, const Matrix& vectors, const fs::path& model) {
  const TokenDataset documents(c.folder_of("encoding") / "tokens");
  const fs::path embeddings = c.folder / "student_documents.h5", first = c.folder / "student_first.h5";
  TextEncoder(model, o.infer, c.device, c.comm, c.log).encode(documents, embeddings, c.comm, [&] { c.leave_if_asked(); });
  const Hdf5File classes(c.folder_of("encoding") / "classes.h5"), paths(c.folder_of("refinement") / "paths.h5");
  const auto hubness = paths.dataset<float>("hubness");
  {
    const MappedMatrix rows(embeddings);
    write_row_blocks(first, documents.size(), vectors.rows, c.comm, c.device.threads, [&](Range range, MutableMatrixView posterior) {
      Matrix centred(range.size(), rows.view().columns);
      std::copy_n(rows.view().row(range.first).data(), centred.values.size(), centred.values.data());
      centre_rows(centred.view(), classes.dataset<float>("document_mean"), o.teleclass.centring);
      score_paths(std::as_const(centred).view(), vectors.view(), posterior);
      to_logits(posterior, hubness, o.teleclass.temperature, o.teleclass.csls);
      softmax_rows(posterior);
    });
  }
  SparseMatrix neighbours;
  together(c.comm, [&] {
    const Range own = own_documents(documents.size(), c.comm);
    neighbours = sparse_rows(read_sparse(c.folder_of("refinement") / "neighbours.h5"), own.first, own.size());
  });
  smooth_posterior(first, neighbours, o.teleclass.smoothing_rounds, .5, model / "gpuhpc" / "student_posterior.h5", c.comm, c.device.threads);
  on_root(c.comm, [&] {
    remove_file(embeddings);
    remove_file(first);
  });
}

}  // namespace

void train_path_model(const StageContext& c, const TeleclassPipelineOptions& o, const InputLayout& layout) {
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
    copy_teacher(c, *encoder, model);
    write_text_file(c.folder / "metrics.jsonl", "");  // an output without student, too
  });
  ClassifierSettings settings{"paths", with_student, layout.test_serves_as_train, o.teleclass.temperature, o.teleclass.csls, o.teleclass.lexical,
                              o.teleclass.centring, .5, o.teleclass.smoothing_rounds > 0, o.neighbours.k, o.tfidf.longest_ngram, o.tfidf.english_stop_words};
  Matrix vectors;
  if (with_student) vectors = train_student(c, o, *encoder, *tokenizer, taxonomy);
  on_root(c.comm, [&] {
    save_encoder_folder(model, encoder->encoder, encoder->model.embedding, encoder->model);
    if (layout.test_serves_as_train) write_text_hashes(o, layout, model / "gpuhpc" / "text_hashes.h5");
    if (with_student) write_matrix(model / "gpuhpc" / "student_paths.h5", std::as_const(vectors).view());
    write_settings(model, settings);
  });
  if (with_student) write_student_posterior(c, o, vectors, model);
}

}  // namespace gpuhpc
