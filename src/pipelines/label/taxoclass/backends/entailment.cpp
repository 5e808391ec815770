#include "gpuhpc/pipelines/label/taxoclass/similarity.hpp"

#include <algorithm>
#include <chrono>
#include <memory>
#include <numeric>

#include "gpuhpc/base/progress.hpp"
#include "gpuhpc/comm/run_collectively.hpp"
#include "gpuhpc/data/token_shards.hpp"
#include "gpuhpc/infer/encode.hpp"
#include "gpuhpc/infer/pair_scorer.hpp"
#include "gpuhpc/io/atomic_file.hpp"
#include "gpuhpc/io/matrix_file.hpp"
#include "gpuhpc/labels/candidates.hpp"
#include "gpuhpc/labels/scoring.hpp"
#include "gpuhpc/pipelines/corpus_blocks.hpp"
#include "gpuhpc/pipelines/label/taxoclass/backends/pair_examples.hpp"

namespace gpuhpc {
namespace {
namespace fs = std::filesystem;

constexpr std::int64_t scored_block = 64;  // documents; what a stopped run loses at most

struct Scoring {
  const PairScorer& scorer;
  const Taxonomy& taxonomy;
  std::vector<TokenIds> hypotheses;
  std::int64_t premise_tokens;
  bool full_matrix;
  std::int64_t pairs = 0;

  // Every document's next level in one call: pairs of many documents fill the batches.
  void score(std::span<const std::string> texts, int threads, MutableMatrixView similarity,
             const std::function<std::string(std::int64_t)>& document) {
    std::fill_n(similarity.data, similarity.rows * similarity.columns, -1.F);
    std::vector<std::string> lowered;
    for (const std::string& text : texts) lowered.push_back(as_premise(text));
    std::vector<TokenIds> premises = tokenize(scorer.tokenizer(), lowered, threads);
    for (TokenIds& premise : premises)
      premise.resize(
          std::min<std::size_t>(premise.size(), static_cast<std::size_t>(premise_tokens)));
    std::vector<CandidateSearch> searches(premises.size(),
                                          CandidateSearch(taxonomy, taxoclass_candidates()));
    for (std::vector<TextPair> wanted = next(searches, similarity); !wanted.empty();
         wanted = next(searches, similarity)) {
      const std::vector<float> found = scorer.scores(premises, hypotheses, wanted);
      for (std::size_t i = 0; i < wanted.size(); ++i)
        similarity.row(wanted[i].premise)[static_cast<std::size_t>(wanted[i].hypothesis)] =
            found[i];
      check_scores(similarity, taxonomy, document);
      pairs += std::ssize(wanted);
      if (full_matrix) return;
      for (std::size_t d = 0; d < searches.size(); ++d)
        if (!searches[d].needed().empty())
          searches[d].advance(similarity.row(static_cast<std::int64_t>(d)));
    }
  }

  std::vector<TextPair> next(const std::vector<CandidateSearch>& searches,
                             MutableMatrixView similarity) const {
    std::vector<ClassId> all(static_cast<std::size_t>(taxonomy.size()));
    std::iota(all.begin(), all.end(), 0);
    std::vector<TextPair> wanted;
    for (std::int64_t d = 0; d < std::ssize(searches); ++d)
      for (const ClassId c : full_matrix ? all : searches[static_cast<std::size_t>(d)].needed())
        if (similarity.row(d)[static_cast<std::size_t>(c)] < 0) wanted.push_back({d, c});
    return wanted;
  }
};

fs::path folder_of(const ModelFiles& model) { return model.path; }
fs::path folder_of(const TrainedFiles& trained) { return trained.model; }

}  // namespace

template <class Model>
void EntailmentStage<Model>::run(const StageContext& c, const SimilarityFiles& out) const {
  const fs::path folder = folder_of(model);
  Taxonomy classes;
  std::unique_ptr<PairScorer> scorer;
  InferOptions plan = infer;
  if (options.batch > 0) plan.batch = options.batch;
  run_collectively(c.comm, [&] {
    classes = taxonomy.load();
    scorer = std::make_unique<PairScorer>(folder, PairScore::entailment, plan, c.device);
  });
  if (c.comm.is_root()) c.log->info("cross-encoder {}: {}", folder.string(), scorer->describe());
  const TokenDataset corpus(encoding.tokens);
  const std::int64_t documents = corpus.size();
  const std::vector<std::string> texts = class_statements(classes, statements.hypothesis);
  Scoring scoring{*scorer, classes, tokenize(scorer->tokenizer(), texts, c.device.threads),
                  statements.premise_tokens, options.full_matrix};
  on_root(c.comm, [&] { create_folder(c.checkpoints); });
  const auto start = std::chrono::steady_clock::now();
  MatrixFileWriter writer(out.similarity, c.comm,
                          {{"values", ElementType::float32, {documents, classes.size()}}});
  run_collectively(c.comm, [&] {
    Progress progress(c.log, "entailment", own_documents(documents, c.comm).size(), "documents",
                      c.comm.is_root());
    for_own_blocks(corpus, c.comm, [&](Range rows, std::span<const std::string> block) {
      for (std::int64_t first = 0; first < rows.size(); first += scored_block) {
        const std::int64_t count = std::min(scored_block, rows.size() - first);
        const fs::path file =
            c.checkpoints / fmt::format("similarity-{:09d}.h5", rows.first + first);
        Matrix similarity(count, classes.size());
        if (fs::exists(file)) {
          similarity = read_matrix(file, "values", count, classes.size());
        } else {
          scoring.score(
              block.subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(count)),
              c.device.threads, similarity.view(), [&](std::int64_t i) {
                return fmt::format("document `{}`", corpus.id(rows.first + first + i));
              });
          write_matrix(file, std::as_const(similarity).view());
        }
        writer.write_rows("values", rows.first + first, std::as_const(similarity).view());
        progress.advance(count);
        c.leave_if_asked();
      }
    });
    progress.finish();
  });
  writer.commit();
  const std::int64_t pairs = c.comm.all_reduce_value(scoring.pairs),
                     all = documents * classes.size();
  if (c.comm.is_root())
    c.log->info(
        "entailment: {} pairs scored of {} ({:.1f}%) in {}", pairs, all,
        100 * static_cast<double>(pairs) / static_cast<double>(all),
        format_duration(
            std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count()));
}

template struct EntailmentStage<ModelFiles>;
template struct EntailmentStage<TrainedFiles>;

}  // namespace gpuhpc
