#pragma once
// Corpus-based class terms (TELEClass section 3.2, eq. 2-4): popular in the class's documents, rare
// in its siblings', near in meaning.
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "gpuhpc/base/matrix.hpp"
#include "gpuhpc/labels/taxonomy.hpp"

namespace gpuhpc {

// Counts of V terms in the documents of every class, D_c = documents whose cores include c or a
// descendant. Integers: ranks all-reduce the three arrays (sum).
struct TermCounts {
  TermCounts(std::int64_t class_count, std::int64_t term_count);
  std::int64_t classes, terms;
  std::vector<std::int32_t> documents;    // (classes, terms): documents of D_c that hold the term
  std::vector<std::int32_t> occurrences;  // (classes, terms): times that the term occurs in D_c
  std::vector<std::int64_t> lengths;      // (classes): term occurrences of any kind in D_c
};
// One document: ids of the terms in it, one entry an occurrence, any order; its core classes.
void count_terms(const Taxonomy& taxonomy, std::span<const std::int32_t> terms,
                 std::span<const ClassId> cores, TermCounts& counts);

enum class EnrichmentScore {
  paper,  // geometric mean of the three; union over parents
  code    // popularity^.2 * distinctiveness^.8 * semantic; intersection over parents; a shared term
          // stays with its best scorer
};
struct EnrichmentOptions {
  EnrichmentScore score = EnrichmentScore::paper;
  std::int64_t terms = 20;             // kept per class (and parent)
  std::int64_t minimum_frequency = 1;  // occurrences in D_c; the authors' code: 5
  double k1 = 1.5, b = .75;            // BM25
};
EnrichmentOptions code_enrichment();

struct ScoredTerm {
  std::int32_t term = 0;
  float score = 0;
};

// log(1 + df), df = documents of D_c with the term.
double popularity(std::int64_t documents);
// exp(BM25_c) / (1 + sum over siblings of exp(BM25_c')).
double distinctiveness(double own, std::span<const double> siblings);
// BM25 (Robertson) of the term in D_c read as one long document among the `group` (c and its
// siblings under one parent): (group) values for (group) classes.
std::vector<double> group_bm25(const TermCounts& counts, std::span<const ClassId> group,
                               std::int32_t term, const EnrichmentOptions& options);

// Terms of every class, best first (ties: lower id). class_vectors (classes, D) and term_vectors
// (V, D) unit rows; semantic = their cosine, negative ones count 0. A class with no documents gets
// none.
std::vector<std::vector<ScoredTerm>> enrich_classes(const Taxonomy& taxonomy,
                                                    const TermCounts& counts,
                                                    MatrixView class_vectors,
                                                    MatrixView term_vectors,
                                                    const EnrichmentOptions& options);

}  // namespace gpuhpc
