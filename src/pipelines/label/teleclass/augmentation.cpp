#include "gpuhpc/pipelines/label/teleclass/augmentation.hpp"

#include <algorithm>
#include <map>

#include "gpuhpc/base/error.hpp"
#include "gpuhpc/comm/run_collectively.hpp"
#include "gpuhpc/data/class_files.hpp"
#include "gpuhpc/io/atomic_file.hpp"
#include "gpuhpc/io/json.hpp"
#include "gpuhpc/io/matrix_file.hpp"
#include "gpuhpc/labels/pseudo_documents.hpp"
#include "gpuhpc/labels/refinement.hpp"
#include "gpuhpc/labels/vectors.hpp"
#include "gpuhpc/pipelines/corpus_blocks.hpp"
#include "gpuhpc/pipelines/label/class_list_files.hpp"
#include "gpuhpc/pipelines/text_encoder.hpp"

namespace gpuhpc {
namespace {

struct AugmentedDocument {
  std::string text;
  ClassId target = 0;
};

void write_augmented(const StageContext& c, const AugmentationFiles& out, const Taxonomy& taxonomy,
                     std::span<const AugmentedDocument> documents) {
  on_root(c.comm, [&] {
    std::string lines;
    Json labels = Json::object();
    for (std::size_t i = 0; i < documents.size(); ++i) {
      lines += fmt::format("{}\t{}\n", i, documents[i].text);
      Json ancestors = Json::array();
      const ClassId target[] = {documents[i].target};
      for (const ClassId id : taxonomy.with_ancestors(target))
        ancestors.push_back(std::to_string(id));
      labels[std::to_string(i)] = {{"core_classes", std::to_string(documents[i].target)},
                                   {"with ancestors", ancestors}};
    }
    write_text_file(out.documents, lines);
    write_json(out.labels, labels);
  });
}

// Leaves that the refinement gave fewer than --teleclass.augment-below documents.
std::vector<ClassId> starved_leaves(const AugmentationStage& s, const Taxonomy& taxonomy,
                                    const TokenDataset& documents) {
  std::vector<std::int64_t> counts(static_cast<std::size_t>(taxonomy.size()));
  for (const ClassList& list : read_class_lists(s.refined.refined, documents, taxonomy))
    for (const ClassId id : list) ++counts[static_cast<std::size_t>(id)];
  std::vector<ClassId> starved;
  for (const ClassId id : starved_classes(counts, s.options.below))
    if (taxonomy.is_leaf(id)) starved.push_back(id);
  return starved;
}

// The documents nearest to each class.
std::vector<std::vector<std::int64_t>> find_nearest(const StageContext& c,
                                                    const AugmentationStage& s,
                                                    std::span<const ClassId> starved) {
  const MappedMatrix vectors(s.encoding.documents), classes(s.encoding.classes, "vectors");
  const Range own = own_documents(vectors.view().rows, c.comm);
  Matrix wanted(std::ssize(starved), classes.view().columns);
  for (std::size_t i = 0; i < starved.size(); ++i)
    std::copy_n(classes.view().row(starved[i]).data(), wanted.columns,
                wanted.row(static_cast<std::int64_t>(i)).data());
  TopDocuments top(wanted.rows, 10), merged(wanted.rows, 10);
  for (std::int64_t first = own.first; first < own.last; first += document_block) {
    const std::int64_t count = std::min(own.last, first + document_block) - first;
    Matrix scores(count, wanted.rows);
    multiply_transposed(vectors.view().slice(first, count), wanted.view(), scores.view());
    top.add(std::as_const(scores).view(), first);
  }
  merged.merge(c.comm.all_gather_v(top.scores()), c.comm.all_gather_v(top.documents()));
  std::vector<std::vector<std::int64_t>> nearest;
  for (ClassId i = 0; i < wanted.rows; ++i) nearest.push_back(merged.of(i));
  return nearest;
}

// Sentences of documents with their vectors; a document's stand together.
struct Sentences {
  std::vector<std::string> texts;
  Matrix vectors;
  std::map<std::int64_t, Range> of_document;
};

// Classes share documents: each is encoded once.
Sentences encode_sentences(const TokenDataset& documents,
                           std::span<const std::vector<std::int64_t>> nearest,
                           const TextEncoder& encoder, Communicator& comm) {
  Sentences sentences;
  for (const auto& of_class : nearest)
    for (const std::int64_t document : of_class) {
      const auto [place, added] = sentences.of_document.try_emplace(document);
      if (!added) continue;
      place->second.first = std::ssize(sentences.texts);
      for (std::string& sentence : split_sentences(std::string(documents.text(document))))
        sentences.texts.push_back(std::move(sentence));
      place->second.last = std::ssize(sentences.texts);
    }
  sentences.vectors = encoder.encode(sentences.texts, comm);
  return sentences;
}

// The sentences of a class's nearest documents that are nearest to the class, best first.
std::vector<std::string> nearest_sentences(const Sentences& sentences,
                                           std::span<const std::int64_t> nearest,
                                           std::span<const float> class_vector, std::size_t most) {
  std::vector<std::pair<double, std::int64_t>> ranked;
  for (const std::int64_t document : nearest) {
    const Range range = sentences.of_document.at(document);
    for (std::int64_t i = range.first; i < range.last; ++i)
      ranked.emplace_back(-dot(sentences.vectors.row(i), class_vector), i);
  }
  std::sort(ranked.begin(), ranked.end());
  std::vector<std::string> best;
  for (std::size_t i = 0; i < std::min(most, ranked.size()); ++i)
    best.push_back(sentences.texts[static_cast<std::size_t>(ranked[i].second)]);
  return best;
}

std::vector<AugmentedDocument> build_for_starved(const StageContext& c, const AugmentationStage& s,
                                                 const Taxonomy& taxonomy) {
  const TokenDataset documents(s.encoding.tokens);
  std::vector<ClassId> starved;
  std::vector<std::vector<std::string>> terms(static_cast<std::size_t>(taxonomy.size()));
  run_collectively(c.comm, [&] {
    starved = starved_leaves(s, taxonomy, documents);
    if (!s.classes.keywords.empty())
      terms = read_class_terms(s.classes.keywords, taxonomy.labels());
  });
  if (starved.empty()) return {};
  const auto nearest = find_nearest(c, s, starved);
  const MappedMatrix classes(s.encoding.classes, "vectors");
  const TextEncoder encoder(s.encoder.path(), s.infer, c.device, c.comm, c.log,
                            {s.encoder.pooling.kind(), s.encoder.prompt.given});
  PseudoDocumentOptions options;
  options.documents = s.options.documents;
  std::vector<AugmentedDocument> augmented;
  constexpr std::size_t classes_at_once = 512;
  Sentences sentences;
  for (std::size_t i = 0; i < starved.size(); ++i) {
    if (i % classes_at_once == 0)
      sentences = encode_sentences(
          documents, std::span(nearest).subspan(i, std::min(classes_at_once, nearest.size() - i)),
          encoder, c.comm);
    const ClassId id = starved[i];
    const auto best = nearest_sentences(sentences, nearest[i], classes.view().row(id),
                                        static_cast<std::size_t>(3 * options.sentences));
    RandomStream random(static_cast<std::uint64_t>(s.seed.value), static_cast<std::uint64_t>(id));
    for (std::string& text :
         build_pseudo_documents(taxonomy, taxonomy.first_path(id),
                                terms[static_cast<std::size_t>(id)], best, options, random))
      augmented.push_back({std::move(text), id});
  }
  if (c.comm.is_root())
    c.log->info("{} pseudo-documents for {} classes with fewer than {} documents", augmented.size(),
                starved.size(), s.options.below);
  return augmented;
}

}  // namespace

void AugmentationStage::check() const {
  if (options.kind == "generated" && classes.generated_docs.empty())
    throw input_error(
        "--teleclass.augmentation is generated but the input folder has no "
        "train/generated_docs.txt; add it or choose pseudo");
}

void AugmentationStage::run(const StageContext& c, const AugmentationFiles& out) const {
  Taxonomy names;
  std::vector<AugmentedDocument> documents;
  const bool generated =
      options.kind == "generated" || (options.kind == "auto" && !classes.generated_docs.empty());
  run_collectively(c.comm, [&] {
    names = taxonomy.load();
    if (!generated) return;
    GeneratedDocuments given =
        read_generated_documents(classes.generated_docs, classes.generated_labels, names.labels());
    for (std::size_t i = 0; i < given.target.size(); ++i)
      documents.push_back({std::move(given.documents.texts[i]), given.target[i]});
  });
  if (!generated && options.kind != "none") documents = build_for_starved(c, *this, names);
  write_augmented(c, out, names, documents);
}

}  // namespace gpuhpc
