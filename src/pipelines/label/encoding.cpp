#include "gpuhpc/pipelines/label/encoding.hpp"

#include "gpuhpc/base/progress.hpp"
#include "gpuhpc/comm/run_collectively.hpp"
#include "gpuhpc/data/class_files.hpp"
#include "gpuhpc/io/atomic_file.hpp"
#include "gpuhpc/io/json.hpp"
#include "gpuhpc/io/matrix_file.hpp"
#include "gpuhpc/labels/class_texts.hpp"
#include "gpuhpc/labels/vectors.hpp"
#include "gpuhpc/pipelines/corpus_blocks.hpp"
#include "gpuhpc/pipelines/label/smoothing.hpp"
#include "gpuhpc/pipelines/text_encoder.hpp"

namespace gpuhpc {
namespace {

// What the input says about its classes beside their names.
struct ClassInputs {
  Taxonomy taxonomy;
  std::vector<std::string> descriptions;
  std::vector<std::vector<std::string>> terms;
  GeneratedDocuments generated;
};

ClassInputs read_class_inputs(const EncodingStage& stage) {
  const ClassFiles& files = stage.classes;
  ClassInputs inputs;
  inputs.taxonomy = stage.taxonomy.load();
  if (!files.descriptions.empty() && stage.class_texts.descriptions)
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

void write_class_texts(const std::filesystem::path& path, const ClassTexts& texts,
                       const Taxonomy& taxonomy) {
  std::string lines;
  for (std::size_t i = 0; i < texts.texts.size(); ++i)
    lines += fmt::format("{}\t{}\n", taxonomy.label(texts.owner[i]), texts.texts[i]);
  write_text_file(path, lines);
}

// TELEClass asks an LLM for key terms once; here the question is written down and the answer is a
// file of the input folder.
void write_prompts(const std::filesystem::path& path, const Taxonomy& taxonomy) {
  JsonlWriter writer(path);
  for (ClassId c = 0; c < taxonomy.size(); ++c)
    writer.write(Json{
        {"class", taxonomy.label(c)},
        {"prompt", fmt::format("Name 10 key terms of the class \"{}\" ({}) that tell it apart from "
                               "its sibling classes. Answer on one line: {}:term,term,...",
                               taxonomy.title(c), path_text(taxonomy, c), taxonomy.label(c))}});
  writer.commit();
}

// Quality recipe, step 1, with whatever the input has: class texts, keywords, generated documents.
// (C,H) unit rows.
Matrix encode_classes(const ClassInputs& inputs, const ClassTexts& texts,
                      const TextEncoder& encoder, const EncodingStage& stage, Communicator& comm) {
  const std::int64_t classes = inputs.taxonomy.size();
  Matrix named = class_vectors(encoder.encode(texts.texts, stage.class_prompt.given, comm).view(),
                               texts.owner, classes);
  if (stage.class_texts.kind != "five" || inputs.terms.empty()) return named;
  const ClassTexts keyword_texts = keyword_class_texts(inputs.taxonomy, inputs.terms);
  const Matrix keywords =
      class_vectors(encoder.encode(keyword_texts.texts, stage.class_prompt.given, comm).view(),
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
  return prototype_vectors(sums.matrix().view(), counts, keywords.view(), stage.centring.share);
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

Matrix encode_classes(const EncodingStage& stage, const TextEncoder& encoder, Communicator& comm) {
  ClassInputs inputs;
  run_collectively(comm, [&] { inputs = read_class_inputs(stage); });
  return encode_classes(inputs, choose_texts(inputs, stage.class_texts.kind), encoder, stage, comm);
}

void EncodingStage::run(const StageContext& c, const EncodingFiles& out) const {
  ClassInputs inputs;
  run_collectively(c.comm, [&] { inputs = read_class_inputs(*this); });
  const TextEncoder text_encoder(encoder.path(), infer, c.device, c.comm, c.log,
                                 {encoder.pooling.kind(), encoder.prompt.given});
  {
    Progress progress(c.log, "tokenizing", 0, "documents", c.comm.is_root());
    prepare_shards(corpus.scan, text_encoder.tokenizer(), out.tokens, shards, Texts::keep, c.comm,
                   c.device.threads, [&](std::int64_t n) {
                     progress.advance(n);
                     c.leave_if_asked();
                   });
  }
  const TokenDataset documents(out.tokens);
  text_encoder.encode(documents, out.documents, c.comm, [&] { c.leave_if_asked(); });

  const ClassTexts texts = choose_texts(inputs, class_texts.kind);
  const Matrix vectors = encode_classes(inputs, texts, text_encoder, *this, c.comm);
  const std::vector<float> mean = mean_document(out.documents, c.comm),
                           common = common_part(mean, centring.share);
  if (const double share = centring_share(mean, centring.share); share > centring.share)
    c.log->info(
        "centring takes {:.2f} of the documents' mean off, not {:g}: their cosines are {:.2f} on "
        "average",
        share, centring.share, dot(mean, mean));
  {
    const MappedMatrix rows(out.documents);
    write_row_blocks(out.centred, rows.view().rows, rows.view().columns, c.comm, c.device.threads,
                     [&](Range range, MutableMatrixView values) {
                       std::copy_n(rows.view().row(range.first).data(),
                                   range.size() * values.columns, values.data);
                       centre_rows(values, common);
                     });
  }
  on_root(c.comm, [&] {
    Matrix centred = vectors;
    centre_all(centred.view(), centring.share);
    write_arrays(out.classes, {{"vectors", vectors.view()},
                               {"centred", std::as_const(centred).view()},
                               {"common_part", std::span<const float>(common)}});
    write_class_texts(out.class_texts, texts, inputs.taxonomy);
    write_prompts(out.llm_prompts, inputs.taxonomy);
  });
}

}  // namespace gpuhpc
