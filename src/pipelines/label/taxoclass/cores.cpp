#include "gpuhpc/pipelines/label/taxoclass/cores.hpp"

#include <algorithm>

#include "gpuhpc/comm/run_collectively.hpp"
#include "gpuhpc/io/atomic_file.hpp"
#include "gpuhpc/io/json.hpp"
#include "gpuhpc/io/matrix_file.hpp"
#include "gpuhpc/labels/core_classes.hpp"
#include "gpuhpc/pipelines/corpus_blocks.hpp"
#include "gpuhpc/pipelines/label/class_list_files.hpp"

namespace gpuhpc {
namespace {

// Candidates of this rank's documents, one behind the other.
struct Mined {
  std::vector<std::vector<Candidate>> candidates;  // of each document
  std::vector<std::vector<float>> confidences;     // of each candidate
};

Mined mine(const Taxonomy& taxonomy, MatrixView similarity, bool against_parents) {
  Mined mined;
  for (std::int64_t i = 0; i < similarity.rows; ++i) {
    mined.candidates.push_back(
        find_candidates(taxonomy, similarity.row(i), taxoclass_candidates()));
    std::vector<float>& confidences = mined.confidences.emplace_back();
    for (const Candidate& candidate : mined.candidates.back())
      confidences.push_back(
          core_confidence(taxonomy, similarity.row(i), candidate.id, against_parents));
  }
  return mined;
}

std::vector<float> medians_over_ranks(const Mined& mined, std::int64_t classes,
                                      Communicator& comm) {
  std::vector<ClassId> ids;
  std::vector<float> confidences;
  for (std::size_t i = 0; i < mined.candidates.size(); ++i) {
    for (const Candidate& candidate : mined.candidates[i]) ids.push_back(candidate.id);
    confidences.insert(confidences.end(), mined.confidences[i].begin(), mined.confidences[i].end());
  }
  return confidence_medians(classes, comm.all_gather_v(std::span<const ClassId>(ids)),
                            comm.all_gather_v(std::span<const float>(confidences)));
}

// The classifier's positives are cores and their parents; children of cores say nothing (TaxoClass
// S3).
void write_labels(const StageContext& c, const CoreFiles& out, const Taxonomy& taxonomy,
                  const TokenDataset& documents, std::span<const ClassList> cores) {
  std::vector<std::int64_t> counts(static_cast<std::size_t>(taxonomy.size()));
  JsonlWriter writer(out.labels);
  std::int64_t with_cores = 0, total = 0;
  for (std::int64_t i = 0; i < documents.size(); ++i) {
    const ClassList& list = cores[static_cast<std::size_t>(i)];
    const TrainingLabels labels = core_labels(taxonomy, list);
    for (const ClassId id : list) ++counts[static_cast<std::size_t>(id)];
    with_cores += !list.empty(), total += std::ssize(list);
    writer.write(Json{{"id", documents.id(i)},
                      {"positives", labels.positives},
                      {"masked", labels.masked},
                      {"generated", false}});
  }
  writer.commit();
  std::string lines = "class\tdocuments\n";
  for (ClassId id = 0; id < taxonomy.size(); ++id)
    lines += fmt::format("{}\t{}\n", taxonomy.label(id), counts[static_cast<std::size_t>(id)]);
  write_text_file(out.per_class, lines);
  c.log->info(
      "core classes: {} of {} documents have any, {:.2f} each; {} of {} classes are nobody's, {} "
      "have fewer than 15 documents",
      with_cores, documents.size(),
      static_cast<double>(total) / static_cast<double>(std::max<std::int64_t>(1, with_cores)),
      std::ranges::count(counts, 0), taxonomy.size(),
      std::ranges::count_if(counts, [](std::int64_t n) { return n < 15; }));
}

}  // namespace

void CoreStage::run(const StageContext& c, const CoreFiles& out) const {
  Taxonomy classes;
  run_collectively(c.comm, [&] { classes = taxonomy.load(); });
  const MappedMatrix rows(similarity.similarity);
  const TokenDataset documents(encoding.tokens);
  const Range own = own_documents(documents.size(), c.comm);
  const Mined mined =
      mine(classes, rows.view().slice(own.first, own.size()), options.against_parents);
  const std::vector<float> medians = medians_over_ranks(mined, classes.size(), c.comm);
  std::vector<ClassList> cores;
  for (std::size_t i = 0; i < mined.candidates.size(); ++i)
    cores.push_back(select_core_classes(mined.candidates[i], mined.confidences[i], medians,
                                        {.require_positive = options.positive_confidence}));
  const std::vector<ClassList> all = c.comm.all_gather_lists(std::span<const ClassList>(cores));
  on_root(c.comm, [&] {
    write_core_classes(out.cores, documents, all, classes);
    write_labels(c, out, classes, documents, all);
  });
}

}  // namespace gpuhpc
