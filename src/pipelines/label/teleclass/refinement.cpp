#include "gpuhpc/pipelines/label/teleclass/refinement.hpp"

#include <algorithm>

#include "gpuhpc/comm/run_collectively.hpp"
#include "gpuhpc/data/class_files.hpp"
#include "gpuhpc/io/atomic_file.hpp"
#include "gpuhpc/io/matrix_file.hpp"
#include "gpuhpc/labels/class_texts.hpp"
#include "gpuhpc/labels/core_classes.hpp"
#include "gpuhpc/labels/enrichment.hpp"
#include "gpuhpc/labels/refinement.hpp"
#include "gpuhpc/pipelines/corpus_blocks.hpp"
#include "gpuhpc/pipelines/label/class_list_files.hpp"
#include "gpuhpc/pipelines/text_encoder.hpp"
#include "gpuhpc/text/phrases.hpp"

namespace gpuhpc {
namespace {

struct EncodedCorpus {
  const StageContext& context;
  const PublishedRefinementStage& stage;
  const Taxonomy& taxonomy;
  const TokenDataset& documents;
  MatrixView vectors;  // (N,H) unit rows
  Range own() const { return own_documents(vectors.rows, context.comm); }
  MatrixView own_vectors() const { return vectors.slice(own().first, own().size()); }
  void for_texts(const std::function<void(std::int64_t own_row, const std::string&)>& work) const {
    for (std::int64_t i = 0; i < own().size(); ++i)
      work(i, std::string(documents.text(own().first + i)));
  }
};

std::vector<std::string> mine_terms(const EncodedCorpus& corpus) {
  Communicator& comm = corpus.context.comm;
  PhraseOptions options;
  options.most = 20000;
  PhraseMiner miner(options);
  while (!miner.done()) {
    run_collectively(comm, [&] {
      corpus.for_texts([&](std::int64_t, const std::string& text) { miner.count(text); });
    });
    std::vector<std::string> partials;
    for (int root = 0; root < comm.size(); ++root)
      partials.push_back(comm.broadcast_string(root == comm.rank() ? miner.partial() : "", root));
    miner.finish_level(partials);
  }
  std::vector<std::string> terms;
  for (const Phrase& phrase : miner.phrases()) terms.push_back(phrase.text);
  return terms;
}

// TELEClass section 3.1 without an LLM's choice: top-down candidates by the best class term, the
// best path's end is the core.
std::vector<ClassList> initial_cores(const EncodedCorpus& corpus, const ClassTexts& texts,
                                     const Matrix& text_vectors) {
  std::vector<ClassList> cores;
  Matrix similarity(1, corpus.taxonomy.size());
  for (std::int64_t i = 0; i < corpus.own().size(); ++i) {
    best_text_similarity(corpus.own_vectors().slice(i, 1), text_vectors.view(), texts.owner,
                         similarity.view());
    cores.push_back(best_path_core(
        corpus.taxonomy,
        find_candidates(corpus.taxonomy, similarity.row(0), teleclass_candidates())));
  }
  return cores;
}

// Similarity of every own document with every class vector, cut at the largest gap.
std::vector<GapCut> cut_all(const EncodedCorpus& corpus, const Matrix& classes, std::int64_t first,
                            std::int64_t minimum) {
  std::vector<GapCut> cuts;
  Matrix similarity(1, classes.rows);
  for (std::int64_t i = 0; i < corpus.own().size(); ++i) {
    multiply_transposed(corpus.own_vectors().slice(i, 1), classes.view(), similarity.view());
    cuts.push_back(cut_at_gap(similarity.row(0), first, minimum));
  }
  return cuts;
}

Matrix reduced_means(const EncodedCorpus& corpus, FixedSums& sums,
                     std::vector<std::int64_t>& counts, const Matrix& fallback) {
  corpus.context.comm.all_reduce(sums.words());
  corpus.context.comm.all_reduce(std::span<std::int64_t>(counts));
  return mean_class_vectors(sums, counts, fallback.view());
}

void write_results(const EncodedCorpus& corpus, const PublishedRefinementFiles& out,
                   std::span<const ClassList> initial, std::span<const ClassList> refined,
                   const Matrix& classes, const std::string& enrichment) {
  on_root(corpus.context.comm, [&] {
    write_core_classes(out.initial, corpus.documents, initial, corpus.taxonomy);
    write_class_lists(out.refined, corpus.documents, refined);
    write_text_file(out.enrichment, enrichment);
    write_matrix(out.class_vectors, classes.view());
  });
}

// TELEClass sections 3.1 to 3.3.
void refine_by_terms(const EncodedCorpus& corpus, const PublishedRefinementFiles& out,
                     const TextEncoder& encoder,
                     const std::vector<std::vector<std::string>>& given_terms) {
  Communicator& comm = corpus.context.comm;
  const Taxonomy& taxonomy = corpus.taxonomy;
  const ClassTexts texts = term_class_texts(taxonomy, given_terms);
  const std::string& prompt = corpus.stage.class_prompt.given;
  const Matrix text_vectors = encoder.encode(texts.texts, prompt, comm);
  const Matrix named = class_vectors(text_vectors.view(), texts.owner, taxonomy.size());
  const std::vector<ClassList> cores = initial_cores(corpus, texts, text_vectors);

  const std::vector<std::string> terms = mine_terms(corpus);
  const Matrix term_vectors = encoder.encode(terms, prompt, comm);
  TermCounts counts(taxonomy.size(), std::ssize(terms));
  std::vector<std::vector<std::int32_t>> document_terms(cores.size());
  run_collectively(comm, [&] {
    PhraseFinder finder(terms);
    corpus.for_texts([&](std::int64_t row, const std::string& text) {
      auto& found = document_terms[static_cast<std::size_t>(row)];
      finder.find(text, found);
      count_terms(taxonomy, found, cores[static_cast<std::size_t>(row)], counts);
      std::sort(found.begin(), found.end());
      found.erase(std::unique(found.begin(), found.end()), found.end());
    });
  });
  comm.all_reduce(std::span<std::int32_t>(counts.documents));
  comm.all_reduce(std::span<std::int32_t>(counts.occurrences));
  comm.all_reduce(std::span<std::int64_t>(counts.lengths));
  EnrichmentOptions enrichment =
      corpus.stage.options.kind == "code" ? code_enrichment() : EnrichmentOptions{};
  enrichment.terms = corpus.stage.options.enrichment_terms;
  const auto enriched =
      enrich_classes(taxonomy, counts, named.view(), term_vectors.view(), enrichment);

  std::vector<std::vector<std::int32_t>> class_terms;
  std::string lines;
  for (ClassId c = 0; c < taxonomy.size(); ++c) {
    std::vector<std::int32_t> ids;
    lines += taxonomy.label(c) + ":";
    for (const ScoredTerm& term : enriched[static_cast<std::size_t>(c)]) {
      lines += (ids.empty() ? "" : ",") + terms[static_cast<std::size_t>(term.term)];
      ids.push_back(term.term);
    }
    lines += "\n";
    std::sort(ids.begin(), ids.end());
    class_terms.push_back(std::move(ids));
  }
  FixedSums sums(taxonomy.size(), encoder.width());
  std::vector<std::int64_t> document_counts(static_cast<std::size_t>(taxonomy.size()));
  add_class_documents(taxonomy, corpus.own_vectors(), cores, document_terms, class_terms, sums,
                      document_counts);
  const Matrix classes = reduced_means(corpus, sums, document_counts, named);

  const std::vector<GapCut> cuts = cut_all(corpus, classes, 3, 1);
  std::vector<float> confidences;
  std::vector<ClassList> refined;
  for (const GapCut& cut : cuts) {
    confidences.push_back(cut.confidence);
    refined.push_back(cut.classes);
  }
  const std::vector<bool> kept =
      keep_confident(comm.all_gather_v(std::span<const float>(confidences)), .75);
  std::vector<ClassList> all = comm.all_gather_lists(std::span<const ClassList>(refined));
  for (std::size_t i = 0; i < all.size(); ++i)
    if (!kept[i]) all[i].clear();
  write_results(corpus, out, comm.all_gather_lists(std::span<const ClassList>(cores)), all, classes,
                lines);
}

// The multi-GPU variant: three rounds of {20 nearest documents -> class vector}, at least two
// labels per document.
void refine_by_nearest_documents(const EncodedCorpus& corpus, const PublishedRefinementFiles& out) {
  Communicator& comm = corpus.context.comm;
  const std::int64_t class_count = corpus.taxonomy.size();
  const MappedMatrix encoded(corpus.stage.encoding.classes, "vectors");
  Matrix classes(encoded.view());
  std::vector<ClassList> initial;
  for (int round = 0; round < 3; ++round) {
    if (round == 0)
      for (const GapCut& cut : cut_all(corpus, classes, 5, 2)) initial.push_back(cut.classes);
    TopDocuments top(class_count, 20), merged(class_count, 20);
    Matrix scores(document_block, class_count);
    for (std::int64_t first = corpus.own().first; first < corpus.own().last;
         first += document_block) {
      const std::int64_t count = std::min(corpus.own().last, first + document_block) - first;
      const MutableMatrixView block{scores.values.data(), count, class_count};
      multiply_transposed(corpus.vectors.slice(first, count), classes.view(), block);
      top.add(block, first);
    }
    merged.merge(comm.all_gather_v(top.scores()), comm.all_gather_v(top.documents()));
    FixedSums sums(class_count, classes.columns);
    std::vector<std::int64_t> counts(static_cast<std::size_t>(class_count));
    add_top_documents(merged, corpus.own_vectors(), corpus.own().first, sums, counts);
    classes = reduced_means(corpus, sums, counts, classes);
  }
  std::vector<ClassList> refined;
  for (const GapCut& cut : cut_all(corpus, classes, 5, 2))
    refined.push_back(corpus.taxonomy.with_ancestors(cut.classes));
  write_results(corpus, out, comm.all_gather_lists(std::span<const ClassList>(initial)),
                comm.all_gather_lists(std::span<const ClassList>(refined)), classes, "");
}

}  // namespace

void PublishedRefinementStage::run(const StageContext& c,
                                   const PublishedRefinementFiles& out) const {
  Taxonomy names;
  std::vector<std::vector<std::string>> terms;
  run_collectively(c.comm, [&] {
    names = taxonomy.load();
    terms.resize(static_cast<std::size_t>(names.size()));
    if (!classes.keywords.empty()) terms = read_class_terms(classes.keywords, names.labels());
  });
  const MappedMatrix vectors(encoding.documents);
  const TokenDataset documents(encoding.tokens);
  const EncodedCorpus texts{c, *this, names, documents, vectors.view()};
  if (options.kind == "multi-gpu") return refine_by_nearest_documents(texts, out);
  refine_by_terms(texts, out,
                  TextEncoder(encoder.path(), infer, c.device, c.comm, c.log,
                              {encoder.pooling.kind(), encoder.prompt.given}),
                  terms);
}

}  // namespace gpuhpc
