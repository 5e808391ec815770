#include "gpuhpc/pipelines/label/encoding.hpp"

#include "gpuhpc/base/progress.hpp"
#include "gpuhpc/comm/run_collectively.hpp"
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

std::vector<float> mean_document(const std::filesystem::path& documents, Communicator& comm) {
  const MappedMatrix vectors(documents);
  const Range own = own_documents(vectors.view().rows, comm);
  FixedSums sums(1, vectors.view().columns);
  add_rows(vectors.view().slice(own.first, own.size()), sums);
  comm.all_reduce(sums.words());
  return mean_of(sums, vectors.view().rows);
}

}  // namespace

void EncodingStage::run(const StageContext& c, const EncodingFiles& out) const {
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

  const EncodedClasses encoded = encode_classes(classes, text_encoder, c.comm);
  const std::vector<float> mean = mean_document(out.documents, c.comm),
                           common = common_part(mean, classes.centring.share);
  if (const double share = centring_share(mean, classes.centring.share);
      share > classes.centring.share)
    c.log->info(
        "centring takes {:.2f} of the documents' mean off, not {:g}: their cosines are {:.2f} on "
        "average",
        share, classes.centring.share, dot(mean, mean));
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
    Matrix centred = encoded.vectors;
    centre_all(centred.view(), classes.centring.share);
    write_arrays(out.classes, {{"vectors", encoded.vectors.view()},
                               {"centred", std::as_const(centred).view()},
                               {"common_part", std::span<const float>(common)}});
    write_class_texts(out.class_texts, encoded.texts, encoded.taxonomy);
    write_prompts(out.llm_prompts, encoded.taxonomy);
  });
}

}  // namespace gpuhpc
