#include "gpuhpc/pipelines/label/taxoclass/graph/graph_model.hpp"

#include <ATen/ops/clamp_max.h>
#include <ATen/ops/exp.h>

#include <algorithm>

#include "gpuhpc/base/error.hpp"
#include "gpuhpc/comm/together.hpp"
#include "gpuhpc/infer/encode.hpp"
#include "gpuhpc/io/matrix_file.hpp"
#include "gpuhpc/labels/core_classes.hpp"
#include "gpuhpc/labels/scoring.hpp"
#include "gpuhpc/nn/host_matrices.hpp"
#include "gpuhpc/pipelines/label/fine_tuning.hpp"
#include "gpuhpc/pipelines/label/model_folder.hpp"
#include "gpuhpc/pipelines/label/smoothed_scores.hpp"
#include "gpuhpc/pipelines/label/teacher_files.hpp"

namespace gpuhpc {
namespace {
namespace fs = std::filesystem;

constexpr double largest_exponent = 30;  // sigmoid(exp(30)) is 1, and its gradient still a number

// Mean word embedding of each class name's tokens (Shen et al. 2021, section 3.3).
Matrix word_features(const Taxonomy& taxonomy, const LoadedEncoder& encoder,
                     const Tokenizer& tokenizer) {
  std::vector<std::string> titles;
  for (ClassId c = 0; c < taxonomy.size(); ++c) titles.push_back(taxonomy.title(c));
  const Matrix words = to_matrix(encoder.encoder.parameters().front().value);
  Matrix features(taxonomy.size(), words.columns);
  const auto tokens = tokenize(tokenizer, titles, 1);
  for (ClassId c = 0; c < taxonomy.size(); ++c) {
    const auto& ids = tokens[static_cast<std::size_t>(c)];
    for (const std::int32_t id : ids)
      for (std::int64_t i = 0; i < words.columns; ++i)
        features.row(c)[static_cast<std::size_t>(i)] +=
            words.row(id)[static_cast<std::size_t>(i)] / static_cast<float>(ids.size());
  }
  return features;
}

}  // namespace

GraphTask::GraphTask(const StageContext& c, const TaxoclassPipelineOptions& o,
                     const InputLayout& layout, const fs::path& folder)
    : options(o) {
  const fs::path encoding = c.folder_of("encoding");
  together(c.comm, [&] {
    taxonomy = Taxonomy::load(layout.labels, layout.hierarchy);
    encoder = std::make_unique<LoadedEncoder>(load_encoder(folder, torch_device(c.device)));
    unit = encoder->model.embedding;
    unit.normalise = true;
    tokenizer = load_tokenizer(folder);
    documents = std::make_unique<TokenDataset>(encoding / "tokens");
    silver = read_labels(c.folder_of("cores") / "labels.jsonl");
    if (o.taxoclass.held_out > 0)
      for (const std::int64_t i : hold_out(std::ssize(silver.documents), o.taxoclass.held_out,
                                           static_cast<std::uint64_t>(o.train.seed))
                                      .validation)
        held_out.push_back(silver.documents[static_cast<std::size_t>(i)]);
    const Hdf5File classes(encoding / "classes.h5");
    const auto mean_document = classes.dataset<float>("document_mean");
    mean.assign(mean_document.begin(), mean_document.end());
    choose_features(encoding);
    choose_bias(encoding);
  });
}

void GraphTask::choose_features(const fs::path& encoding) {
  if (options.taxoclass.features == "words")
    features_ = word_features(taxonomy, *encoder, *tokenizer);
  else
    features_ = read_matrix(encoding / "classes.h5", "centred");
}

void GraphTask::choose_bias(const fs::path& encoding) {
  std::vector<float> shares(static_cast<std::size_t>(taxonomy.size()));
  const auto total = static_cast<float>(documents->size());
  for (const std::int32_t c : silver.labels.positives.classes)
    shares[static_cast<std::size_t>(c)] += 1 / total;
  for (float& share : shares) share = std::clamp(share, .5f / total, .99f);
  const MappedMatrix centred(encoding / "centred.h5");
  const std::int64_t rows = std::min<std::int64_t>(
      4096, centred.view().rows);  // spread evenly: files may be sorted by class
  Matrix sample(rows, centred.view().columns), logits(rows, taxonomy.size());
  for (std::int64_t i = 0; i < rows; ++i)
    std::ranges::copy(centred.view().row(i * centred.view().rows / rows), sample.row(i).begin());
  if (options.taxoclass.graph_residual || options.taxoclass.graph_layers == 0)
    score_paths(std::as_const(sample).view(), std::as_const(features_).view(), logits.view());
  for (float& logit : logits.values) logit *= static_cast<float>(options.taxoclass.scale);
  if (options.taxoclass.link_kind() == Link::sigmoid)
    bias_ = bias_for_shares(std::as_const(logits).view(), shares);
  else
    bias_.assign(shares.size(), 0);  // no share below one half could be met
}

ClassGraphHead GraphTask::head() const {
  const TaxoclassOptions& o = options.taxoclass;
  return {taxonomy,
          features_.view(),
          bias_,
          mean,
          {o.graph_hidden, o.graph_layers, o.graph_residual, o.scale, options.scoring.centring},
          static_cast<std::uint64_t>(options.train.seed),
          encoder->encoder.device()};
}

at::Tensor GraphTask::logits(const ClassGraphHead& head, const PackedIds& batch,
                             DropoutSeed seed) const {
  const Encoder& model = encoder->encoder;
  const PackedTokens packed = pack_tokens(batch.token_ids, batch.offsets, model.device());
  const at::Tensor logits =
      head.logits(model.embed(packed, unit, training_forward(model, options, seed)));
  return options.taxoclass.link_kind() == Link::sigmoid ? logits
                                                        : logits.clamp_max(largest_exponent).exp();
}

std::vector<ParameterGroup> GraphTask::parameters(ClassGraphHead& head, double encoder_rate,
                                                  double head_rate, double graph_rate) const {
  encoder->encoder.train_top_layers(options.fine_tune.layers);
  std::vector<ParameterSlot> classes = trained_parameters(head);  // features and bias come first
  const std::vector<ParameterSlot> graph(classes.begin() + 2, classes.end());
  classes.resize(2);
  return parameter_groups({{"encoder", encoder_rate, trained_parameters(encoder->encoder)},
                           {"head", head_rate, classes},
                           {"graph", graph_rate, graph}},
                          options.train);
}

DocumentTask GraphTask::learnt(bool all, PackedTask::Loss loss) const {
  DocumentTask task({documents.get()},
                    std::min(options.fine_tune.max_length, encoder->model.embedding.max_tokens),
                    tokenizer->cls_id(), tokenizer->sep_id(), std::move(loss));
  std::vector<std::int64_t> candidates(static_cast<std::size_t>(documents->size())), learnt;
  for (std::size_t i = 0; i < candidates.size(); ++i) candidates[i] = static_cast<std::int64_t>(i);
  std::ranges::set_difference(all ? candidates : silver.documents, held_out,
                              std::back_inserter(learnt));
  task.select(std::move(learnt));
  return task;
}

NamedMatrices head_parameters(const ClassGraphHead& head) {
  NamedMatrices parameters;
  for (const auto& parameter : head.parameters())
    parameters.emplace_back(parameter.name, to_matrix(parameter.value));
  return parameters;
}

void restore_head(ClassGraphHead& head, const fs::path& graph) {
  for (const auto& parameter : head.parameters()) {
    const Matrix values = read_matrix(graph, parameter.name);
    at::Tensor target = parameter.value.detach();
    if (std::ssize(values.values) != target.numel())
      throw input_error(
          "{}: {} has another size; run the stage classifier again (--pipeline.force classifier)",
          graph.string(), parameter.name);
    target.copy_(host_view(values.view()).view(target.sizes()));
  }
}

void write_graph_model(const StageContext& c, const GraphTask& task, const InputLayout& layout,
                       const TrainedHead& head, const std::string& labels_from) {
  const TaxoclassPipelineOptions& o = task.options;
  const fs::path model = c.folder / "model";
  const CorpusFolders corpus{c.folder_of("encoding"), c.folder_of("posterior")};
  on_root(c.comm, [&] {
    copy_taxonomy(layout, model);
    save_encoder_folder(model, task.encoder->encoder, task.encoder->model.embedding,
                        task.encoder->model);
    NamedArrays parameters;
    for (const auto& [name, values] : head.parameters) parameters.emplace_back(name, values.view());
    write_arrays(c.folder / "graph.h5", parameters);
    write_arrays(model / "gpuhpc" / "head.h5",
                 {{"class_embeddings", head.class_vectors.view()},
                  {"bias", std::span<const float>(head.bias)},
                  {"document_mean", std::span<const float>(task.mean)}});
    ClassifierSettings settings{labels_from == "classifier" ? "bilinear" : "paths",
                                false,
                                layout.test_serves_as_train,
                                o.scoring.temperature,
                                o.scoring.csls,
                                o.scoring.lexical,
                                o.scoring.centring,
                                .5,
                                o.scoring.smoothing_rounds > 0,
                                o.neighbours.k,
                                o.tfidf.longest_ngram,
                                o.tfidf.english_stop_words,
                                labels_from != "similarity",
                                o.decode.expected_leaves,
                                o.taxoclass.link_kind() == Link::sigmoid_exp};
    write_settings(model, settings);
    if (labels_from == "classifier") return;
    const LoadedEncoder teacher = load_encoder(o.model.encoder);
    copy_teacher(corpus.encoding, corpus.posterior, teacher, model);
    if (layout.test_serves_as_train)
      write_text_hashes(o.input.corpus, layout, model / "gpuhpc" / "text_hashes.h5");
  });
  if (labels_from != "ensemble") return;
  write_smoothed_scores(
      c, o, corpus, model, task.taxonomy.size(),
      [&](MatrixView centred, MutableMatrixView probabilities) {
        class_probabilities(centred, head.class_vectors.view(), head.bias, probabilities);
      },
      model / "gpuhpc" / "class_probabilities.h5");
}

}  // namespace gpuhpc
