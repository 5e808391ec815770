#include "gpuhpc/pipelines/label/taxoclass/graph/graph_model.hpp"

#include <ATen/ops/clamp_max.h>
#include <ATen/ops/exp.h>

#include <algorithm>

#include "gpuhpc/base/error.hpp"
#include "gpuhpc/comm/run_collectively.hpp"
#include "gpuhpc/infer/encode.hpp"
#include "gpuhpc/io/matrix_file.hpp"
#include "gpuhpc/labels/core_classes.hpp"
#include "gpuhpc/labels/scoring.hpp"
#include "gpuhpc/nn/host_matrices.hpp"
#include "gpuhpc/nn/losses.hpp"
#include "gpuhpc/pipelines/fine_tuning.hpp"
#include "gpuhpc/pipelines/label/model_folder.hpp"
#include "gpuhpc/pipelines/planned_training.hpp"

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

GraphTask::GraphTask(const StageContext& c, const GraphInputs& in, const FineTuning& options,
                     const EncoderFiles& source)
    : inputs(in), training(options) {
  run_collectively(c.comm, [&] {
    taxonomy = in.taxonomy.load();
    encoder = std::make_unique<LoadedEncoder>(source.load(torch_device(c.device)));
    unit = encoder->model.embedding;
    unit.normalise = true;
    tokenizer = load_tokenizer(source.path());
    documents = std::make_unique<TokenDataset>(in.encoding.tokens);
    silver = read_labels(in.cores.labels);
    if (in.graph.held_out > 0)
      for (const std::int64_t i : hold_out(std::ssize(silver.documents), in.graph.held_out,
                                           static_cast<std::uint64_t>(training.trainer.train.seed))
                                      .validation)
        held_out.push_back(silver.documents[static_cast<std::size_t>(i)]);
    const Hdf5File classes(in.encoding.classes);
    const auto part = classes.dataset<float>("common_part");
    common.assign(part.begin(), part.end());
    choose_features();
    choose_bias();
  });
}

void GraphTask::choose_features() {
  if (inputs.graph.features == "words")
    features_ = word_features(taxonomy, *encoder, *tokenizer);
  else
    features_ = read_matrix(inputs.encoding.classes, "centred");
}

void GraphTask::choose_bias() {
  std::vector<float> shares(static_cast<std::size_t>(taxonomy.size()));
  const auto total = static_cast<float>(documents->size());
  for (const std::int32_t c : silver.labels.positives.classes)
    shares[static_cast<std::size_t>(c)] += 1 / total;
  for (float& share : shares) share = std::clamp(share, .5f / total, .99f);
  const MappedMatrix centred(inputs.encoding.centred);
  const std::int64_t rows = std::min<std::int64_t>(
      4096, centred.view().rows);  // spread evenly: files may be sorted by class
  Matrix sample(rows, centred.view().columns), logits(rows, taxonomy.size());
  for (std::int64_t i = 0; i < rows; ++i)
    std::ranges::copy(centred.view().row(i * centred.view().rows / rows), sample.row(i).begin());
  if (inputs.graph.residual || inputs.graph.layers == 0)
    score_paths(std::as_const(sample).view(), std::as_const(features_).view(), logits.view());
  for (float& logit : logits.values) logit *= static_cast<float>(inputs.graph.scale);
  if (inputs.graph.link_kind() == Link::sigmoid)
    bias_ = bias_for_shares(std::as_const(logits).view(), shares);
  else
    bias_.assign(shares.size(), 0);  // no share below one half could be met
}

ClassGraphHead GraphTask::head() const {
  const GraphOptions& o = inputs.graph;
  return {taxonomy,
          features_.view(),
          bias_,
          common,
          {o.hidden, o.layers, o.residual, o.scale},
          static_cast<std::uint64_t>(training.trainer.train.seed),
          encoder->encoder.device()};
}

at::Tensor GraphTask::logits(const ClassGraphHead& head, const PackedIds& batch,
                             DropoutSeed seed) const {
  const Encoder& model = encoder->encoder;
  const PackedTokens packed = pack_tokens(batch.token_ids, batch.offsets, model.device());
  const at::Tensor logits =
      head.logits(model.embed(packed, unit, training_forward(model, training, seed)));
  return inputs.graph.link_kind() == Link::sigmoid ? logits
                                                   : logits.clamp_max(largest_exponent).exp();
}

std::vector<ParameterGroup> GraphTask::parameters(ClassGraphHead& head, double encoder_rate,
                                                  double head_rate, double graph_rate) const {
  encoder->encoder.train_top_layers(training.encoder.layers);
  std::vector<ParameterSlot> classes = trained_parameters(head);  // features and bias come first
  const std::vector<ParameterSlot> graph(classes.begin() + 2, classes.end());
  classes.resize(2);
  return parameter_groups({{"encoder", encoder_rate, trained_parameters(encoder->encoder)},
                           {"head", head_rate, classes},
                           {"graph", graph_rate, graph}},
                          training.trainer.train);
}

DocumentTask GraphTask::learnt(bool all, PackedTask::Loss loss, PackedTask::Targets targets) const {
  DocumentTask task({documents.get()},
                    std::min(training.encoder.max_length, encoder->model.embedding.max_tokens),
                    tokenizer->special().single, std::move(loss), std::move(targets));
  std::vector<std::int64_t> candidates(static_cast<std::size_t>(documents->size())), learnt;
  for (std::size_t i = 0; i < candidates.size(); ++i) candidates[i] = static_cast<std::int64_t>(i);
  std::ranges::set_difference(all ? candidates : silver.documents, held_out,
                              std::back_inserter(learnt));
  task.select(std::move(learnt));
  return task;
}

void learn_silver_labels(const StageContext& c, const GraphTask& model, ClassGraphHead& head,
                         const TrainedFiles& out) {
  const FineTuning& training = model.training;
  ParameterArena arena(model.parameters(head, training.encoder.encoder_rate,
                                        training.encoder.head_rate, model.inputs.graph.rate),
                       c.comm.size());
  const at::Device device = model.encoder->encoder.device();
  const auto wanted = [&](std::span<const std::int64_t> of) {
    const MultiLabelBatch labels = gather_labels(model.silver.labels, model.taxonomy.size(), of);
    return std::vector{labels.targets, labels.mask};
  };
  const auto loss = [&](const TargetedIds& batch, DropoutSeed seed) {
    return LossSum{masked_binary_cross_entropy(model.logits(head, batch, seed),
                                               to_device(batch.targets[0], device),
                                               to_device(batch.targets[1], device)),
                   static_cast<double>(batch.size())};
  };
  DocumentTask task = model.learnt(/*all=*/false, loss, wanted);
  TrainContext context = train_context(c, training.trainer, out);
  run_collectively(c.comm, [&] {
    context.foreseen =
        foreseen_student(model.encoder->encoder.config(), training, c.device, c.comm.size(),
                         std::min(training.encoder.max_length, model.unit.max_tokens));
  });
  Trainer(arena, task, training.trainer.train, std::move(context)).run();
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

void write_graph_model(const GraphTask& task, const ClassGraphHead& head,
                       const GraphModelFiles& out) {
  copy_taxonomy(task.inputs.taxonomy, out.model);
  save_encoder_folder(out.model, task.encoder->encoder, task.encoder->model.embedding,
                      task.encoder->model);
  std::vector<std::pair<std::string, Matrix>> values;  // a vector has one row
  for (const auto& parameter : head.parameters())
    values.emplace_back(parameter.name, to_matrix(parameter.value));
  NamedArrays parameters;
  for (const auto& [name, matrix] : values) parameters.emplace_back(name, matrix.view());
  write_arrays(out.graph, parameters);
  write_class_head(task, head, 1, out.model);
  ClassifierSettings settings{.kind = "bilinear",
                              .classes = true,
                              .sigmoid_exp = task.inputs.graph.link_kind() == Link::sigmoid_exp};
  settings.scoring.centring = task.inputs.centring;
  write_settings(out.model, settings);
}

void write_class_head(const GraphTask& task, const ClassGraphHead& head, double temperature,
                      const fs::path& model) {
  Matrix class_vectors = head.class_vectors();
  std::vector<float> bias = head.bias();
  for (float& value : class_vectors.values) value /= static_cast<float>(temperature);
  for (float& value : bias) value /= static_cast<float>(temperature);
  write_arrays(model / "gpuhpc" / "head.h5",
               {{"class_embeddings", std::as_const(class_vectors).view()},
                {"bias", std::span<const float>(bias)},
                {"common_part", std::span<const float>(task.common)}});
}

}  // namespace gpuhpc
