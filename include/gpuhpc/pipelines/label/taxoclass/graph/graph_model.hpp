#pragma once
// The classifier of TaxoClass as its two training stages share it: encoder, graph head, and what
// both learn from.
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gpuhpc/data/token_shards.hpp"
#include "gpuhpc/labels/taxonomy.hpp"
#include "gpuhpc/nn/folder.hpp"
#include "gpuhpc/pipelines/label/class_list_files.hpp"
#include "gpuhpc/pipelines/label/files.hpp"
#include "gpuhpc/pipelines/label/options.hpp"
#include "gpuhpc/pipelines/label/taxoclass/graph/class_graph.hpp"
#include "gpuhpc/pipelines/options.hpp"
#include "gpuhpc/text/tokenizer.hpp"
#include "gpuhpc/train/arena.hpp"
#include "gpuhpc/train/sampler.hpp"

namespace gpuhpc {

// What both training stages read.
struct GraphInputs {
  TaxonomyFiles taxonomy;
  EncodingFiles encoding;
  CoreFiles cores;
  GraphOptions graph;
  CentringOptions centring;
};

struct GraphTask {
  GraphTask(const StageContext& context, const GraphInputs& inputs, const FineTuning& training,
            const EncoderFiles& encoder);  // collective
  // The head as it starts: features from stage 1, every class's bias such that it gets its silver
  // share of the corpus.
  ClassGraphHead head() const;
  // (B,C) logits of one micro-batch.
  at::Tensor logits(const ClassGraphHead& head, const PackedIds& batch, DropoutSeed seed) const;
  // Top encoder layers, features and bias, graph.
  std::vector<ParameterGroup> parameters(ClassGraphHead& head, double encoder_rate,
                                         double head_rate, double graph_rate) const;
  // The documents that are learnt from: with `all` every one, else those with a core class; the
  // held-out ones in neither case.
  DocumentTask learnt(bool all, PackedTask::Loss loss, PackedTask::Targets targets = {}) const;

  const GraphInputs& inputs;
  const FineTuning& training;
  Taxonomy taxonomy;
  std::unique_ptr<LoadedEncoder> encoder;
  EmbeddingConfig unit;  // the encoder's, to unit length
  std::unique_ptr<Tokenizer> tokenizer;
  std::unique_ptr<TokenDataset> documents;
  LabelledSet silver;
  std::vector<std::int64_t> held_out;  // documents, ascending
  std::vector<float> common;           // what centring takes off documents (H)

 private:
  void choose_features();
  void choose_bias();
  Matrix features_;  // (C,F)
  std::vector<float> bias_;
};

// `head` and the task's encoder learn the silver labels. Collective.
void learn_silver_labels(const StageContext& context, const GraphTask& task, ClassGraphHead& head,
                         const TrainedFiles& out);

void restore_head(ClassGraphHead& head, const std::filesystem::path& graph);  // from graph.h5

// model/ and graph.h5 of a training stage: the encoder as it is now and a head over classes, which
// label new text as they are.
void write_graph_model(const GraphTask& task, const ClassGraphHead& head,
                       const GraphModelFiles& out);
// The head of that model, its log odds x'.v_c + b_c divided by `temperature`.
void write_class_head(const GraphTask& task, const ClassGraphHead& head, double temperature,
                      const std::filesystem::path& model);

}  // namespace gpuhpc
