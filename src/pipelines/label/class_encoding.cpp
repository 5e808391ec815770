#include "gpuhpc/pipelines/label/class_encoding.hpp"

#include <algorithm>

#include "gpuhpc/comm/run_collectively.hpp"
#include "gpuhpc/data/class_files.hpp"
#include "gpuhpc/labels/vectors.hpp"

namespace gpuhpc {
namespace {

// What the input says about its classes beside their names.
struct ClassInputs {
  Taxonomy taxonomy;
  std::vector<std::string> descriptions;
  std::vector<std::vector<std::string>> terms;
  GeneratedDocuments generated;
};

ClassInputs read_class_inputs(const ClassEncoding& of) {
  const ClassFiles& files = of.files;
  ClassInputs inputs;
  inputs.taxonomy = of.taxonomy.load();
  if (!files.descriptions.empty() && of.texts.descriptions)
    inputs.descriptions = read_class_descriptions(files.descriptions, inputs.taxonomy.labels());
  if (!files.keywords.empty())
    inputs.terms = read_class_terms(files.keywords, inputs.taxonomy.labels());
  if (!files.generated_docs.empty())
    inputs.generated = read_generated_documents(files.generated_docs, files.generated_labels,
                                                inputs.taxonomy.labels());
  return inputs;
}

ClassTexts choose_texts(const ClassInputs& inputs, const std::string& kind) {
  if (kind == "name") return name_class_texts(inputs.taxonomy, inputs.descriptions);
  if (kind == "keywords") return multi_gpu_class_texts(inputs.taxonomy, inputs.terms);
  return five_class_texts(inputs.taxonomy, inputs.descriptions);
}

// Quality recipe, step 1, with whatever the input has: class texts, keywords, generated documents.
// (C,H) unit rows.
Matrix encode_texts(const ClassInputs& inputs, const ClassTexts& texts, const TextEncoder& encoder,
                    const ClassEncoding& of, Communicator& comm) {
  const std::int64_t classes = inputs.taxonomy.size();
  Matrix named = class_vectors(encoder.encode(texts.texts, of.prompt.given, comm).view(),
                               texts.owner, classes);
  if (of.texts.kind != "five" || inputs.terms.empty()) return named;
  const ClassTexts keyword_texts = keyword_class_texts(inputs.taxonomy, inputs.terms);
  const Matrix keywords =
      class_vectors(encoder.encode(keyword_texts.texts, of.prompt.given, comm).view(),
                    keyword_texts.owner, classes);
  FixedSums sums(classes, encoder.width());
  std::vector<std::int64_t> counts(static_cast<std::size_t>(classes));
  if (inputs.generated.documents.size() == 0) {
    // No generated documents: the class texts stand in for them, so that both halves count alike.
    for (ClassId c = 0; c < classes; ++c) sums.add_row(c, named.row(c));
    std::fill(counts.begin(), counts.end(), 1);
  } else {
    const Matrix vectors = encoder.encode(inputs.generated.documents.texts, comm);
    for (std::int64_t i = 0; i < vectors.rows; ++i) {
      sums.add_row(inputs.generated.target[static_cast<std::size_t>(i)], vectors.row(i));
      ++counts[static_cast<std::size_t>(inputs.generated.target[static_cast<std::size_t>(i)])];
    }
  }
  return prototype_vectors(sums.matrix().view(), counts, keywords.view(), of.centring.share);
}

}  // namespace

EncodedClasses encode_classes(const ClassEncoding& of, const TextEncoder& encoder,
                              Communicator& comm) {
  ClassInputs inputs;
  run_collectively(comm, [&] { inputs = read_class_inputs(of); });
  EncodedClasses classes{{}, choose_texts(inputs, of.texts.kind), {}};
  classes.vectors = encode_texts(inputs, classes.texts, encoder, of, comm);
  classes.taxonomy = std::move(inputs.taxonomy);
  return classes;
}

}  // namespace gpuhpc
