#include "gpuhpc/pipelines/label/encoding.hpp"

#include "gpuhpc/base/progress.hpp"
#include "gpuhpc/comm/together.hpp"
#include "gpuhpc/data/class_files.hpp"
#include "gpuhpc/io/atomic_file.hpp"
#include "gpuhpc/io/json.hpp"
#include "gpuhpc/io/matrix_file.hpp"
#include "gpuhpc/labels/class_texts.hpp"
#include "gpuhpc/labels/vectors.hpp"
#include "gpuhpc/pipelines/label/corpus_blocks.hpp"
#include "gpuhpc/pipelines/label/smoothing.hpp"
#include "gpuhpc/pipelines/label/text_encoder.hpp"

namespace gpuhpc {
namespace {

// What the input says about its classes beside their names.
struct ClassInputs {
  Taxonomy taxonomy;
  std::vector<std::string> descriptions;
  std::vector<std::vector<std::string>> terms;
  GeneratedDocuments generated;
};

ClassInputs read_class_inputs(const InputLayout& layout, const ScoringOptions& options) {
  ClassInputs inputs;
  inputs.taxonomy = Taxonomy::load(layout.labels, layout.hierarchy);
  if (!layout.descriptions.empty() && options.descriptions)
    inputs.descriptions = read_class_descriptions(layout.descriptions, inputs.taxonomy.names());
  if (!layout.keywords.empty())
    inputs.terms = read_class_terms(layout.keywords, inputs.taxonomy.names());
  if (!layout.generated_docs.empty())
    inputs.generated = read_generated_documents(layout.generated_docs, layout.generated_labels,
                                                inputs.taxonomy.names());
  return inputs;
}

ClassTexts choose_texts(const ClassInputs& inputs, const std::string& kind) {
  if (kind == "name") return name_class_texts(inputs.taxonomy, inputs.descriptions);
  if (kind == "keywords") return multi_gpu_class_texts(inputs.taxonomy, inputs.terms);
  return five_class_texts(inputs.taxonomy, inputs.descriptions);
}

void write_class_texts(const std::filesystem::path& path, const ClassTexts& texts,
                       const Taxonomy& taxonomy) {
  std::string lines;
  for (std::size_t i = 0; i < texts.texts.size(); ++i)
    lines += fmt::format("{}\t{}\n", taxonomy.name(texts.owner[i]), texts.texts[i]);
  write_text_file(path, lines);
}

// TELEClass asks an LLM for key terms once; here the question is written down and the answer is a
// file of the input folder.
void write_prompts(const std::filesystem::path& path, const Taxonomy& taxonomy) {
  JsonlWriter writer(path);
  for (ClassId c = 0; c < taxonomy.size(); ++c)
    writer.write(Json{
        {"class", taxonomy.name(c)},
        {"prompt", fmt::format("Name 10 key terms of the class \"{}\" ({}) that tell it apart from "
                               "its sibling classes. Answer on one line: {}:term,term,...",
                               taxonomy.title(c), path_text(taxonomy, c), taxonomy.name(c))}});
  writer.commit();
}

// Quality recipe, step 1, with whatever the input has: class texts, keywords, generated documents.
// (C,H) unit rows.
Matrix encode_classes(const ClassInputs& inputs, const ClassTexts& texts,
                      const TextEncoder& encoder, const ScoringOptions& options,
                      Communicator& comm) {
  const std::int64_t classes = inputs.taxonomy.size();
  Matrix named = class_vectors(encoder.encode(texts.texts, comm).view(), texts.owner, classes);
  if (options.class_texts != "five" || inputs.terms.empty()) return named;
  const ClassTexts keyword_texts = keyword_class_texts(inputs.taxonomy, inputs.terms);
  const Matrix keywords =
      class_vectors(encoder.encode(keyword_texts.texts, comm).view(), keyword_texts.owner, classes);
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
  return prototype_vectors(sums.matrix().view(), counts, keywords.view(), options.centring);
}

std::vector<float> mean_document(const std::filesystem::path& documents, Communicator& comm) {
  const MappedMatrix vectors(documents);
  const Range own = own_documents(vectors.view().rows, comm);
  FixedSums sums(1, vectors.view().columns);
  add_rows(vectors.view().slice(own.first, own.size()), sums);
  comm.all_reduce(sums.words());
  return mean_of(sums, vectors.view().rows);
}

}  // namespace

void run_encoding(const StageContext& c, const ClassifyOptions& o, const InputLayout& layout) {
  ClassInputs inputs;
  together(c.comm, [&] { inputs = read_class_inputs(layout, o.scoring); });
  const TextEncoder encoder(o.model.encoder, o.infer, c.device, c.comm, c.log);

  const auto tokens = c.folder / "tokens";
  {
    Progress progress(c.log, "tokenizing", 0, "documents", c.comm.is_root());
    prepare_shards(*layout.train_scan, encoder.tokenizer(), tokens, o.shards, Texts::keep, c.comm,
                   c.device.threads, [&](std::int64_t n) {
                     progress.advance(n);
                     c.leave_if_asked();
                   });
  }
  const TokenDataset documents(tokens);
  encoder.encode(documents, c.folder / "documents.h5", c.comm, [&] { c.leave_if_asked(); });

  const ClassTexts texts = choose_texts(inputs, o.scoring.class_texts);
  const Matrix classes = encode_classes(inputs, texts, encoder, o.scoring, c.comm);
  const std::vector<float> mean = mean_document(c.folder / "documents.h5", c.comm);
  {
    const MappedMatrix vectors(c.folder / "documents.h5");
    write_row_blocks(c.folder / "centred.h5", vectors.view().rows, vectors.view().columns, c.comm,
                     c.device.threads, [&](Range rows, MutableMatrixView values) {
                       std::copy_n(vectors.view().row(rows.first).data(),
                                   rows.size() * values.columns, values.data);
                       centre_rows(values, mean, o.scoring.centring);
                     });
  }
  on_root(c.comm, [&] {
    Matrix centred = classes;
    centre_all(centred.view(), o.scoring.centring);
    write_arrays(c.folder / "classes.h5", {{"vectors", classes.view()},
                                           {"centred", std::as_const(centred).view()},
                                           {"document_mean", std::span<const float>(mean)}});
    write_class_texts(c.folder / "class_texts.txt", texts, inputs.taxonomy);
    write_prompts(c.folder / "llm_prompts.jsonl", inputs.taxonomy);
  });
}

}  // namespace gpuhpc
