#include "gpuhpc/pipelines/embedding/mining.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <unordered_map>

#include "gpuhpc/base/error.hpp"
#include "gpuhpc/base/progress.hpp"
#include "gpuhpc/comm/run_collectively.hpp"
#include "gpuhpc/infer/pair_scorer.hpp"
#include "gpuhpc/io/json.hpp"
#include "gpuhpc/io/matrix_file.hpp"
#include "gpuhpc/labels/vectors.hpp"
#include "gpuhpc/pipelines/embedding/distinct_texts.hpp"
#include "gpuhpc/pipelines/text_encoder.hpp"

namespace gpuhpc {
namespace {

// Anchors whose neighbours are in memory at once.
constexpr std::int64_t chunk_anchors = 64 * neighbour_block;
// Anchors of a rank that a cross-encoder scores at once.
constexpr std::int64_t rescored_anchors = 64;

// Rows of anchor and positive, each text once.
struct Rows {
  std::vector<TokenDataset> columns;
  DistinctTexts anchors, texts;
  std::vector<std::vector<std::int32_t>> positives;  // of each anchor, in the order of the rows
  std::vector<std::int32_t> itself;                  // the text that is the anchor, or -1
  std::int64_t most = 0;                             // rows of one anchor

  std::vector<std::string> prompts;  // before the texts; vectors are made with them

  explicit Rows(const std::filesystem::path& folder, std::vector<std::string> before = {})
      : columns(open_datasets(folder)),
        anchors(distinct_texts(columns[0], all_rows(columns[0]))),
        texts(distinct_texts(columns[1], all_rows(columns[1]))),
        positives(belonging(anchors, texts)),
        prompts(std::move(before)) {
    prompts.resize(2);
    std::vector<std::int64_t> counts(anchors.places.size());
    for (const std::int32_t anchor : anchors.number)
      most = std::max(most, ++counts[static_cast<std::size_t>(anchor)]);
    std::unordered_map<std::string_view, std::int32_t> numbers;
    for (std::int64_t i = 0; i < texts.size(); ++i) numbers.emplace(text(i), i);
    for (std::int64_t i = 0; i < anchors.size(); ++i) {
      const auto found = numbers.find(anchor(i));
      itself.push_back(found == numbers.end() ? -1 : found->second);
    }
  }
  // Its positives, and itself.
  std::vector<std::int32_t> excluded(std::int64_t anchor) const {
    std::vector<std::int32_t> found = positives[static_cast<std::size_t>(anchor)];
    found.push_back(itself[static_cast<std::size_t>(anchor)]);
    return found;
  }
  bool is_excluded(std::int64_t anchor, std::int32_t text) const {
    const auto& own = positives[static_cast<std::size_t>(anchor)];
    return text == itself[static_cast<std::size_t>(anchor)] ||
           std::ranges::find(own, text) != own.end();
  }
  std::string_view anchor(std::int64_t i) const {
    return columns[0].text(anchors.places[static_cast<std::size_t>(i)]).substr(prompts[0].size());
  }
  std::string_view text(std::int64_t i) const {
    return columns[1].text(texts.places[static_cast<std::size_t>(i)]).substr(prompts[1].size());
  }
};

// What is near an anchor, best first, and the scores of its positives.
struct Candidates {
  std::vector<ScoredText> nearest;
  std::vector<float> positives;
};

// Of the anchors of `chunk` by cosine; theirs begin at `begin` of `found`.
std::vector<Candidates> by_cosine(const Rows& rows, MatrixView anchors, MatrixView texts,
                                  Range chunk, const Neighbours& found, std::int64_t begin) {
  std::vector<Candidates> all(static_cast<std::size_t>(chunk.size()));
  auto place = static_cast<std::size_t>(begin);
  for (std::int64_t i = 0; i < chunk.size(); ++i) {
    Candidates& of_anchor = all[static_cast<std::size_t>(i)];
    for (std::int64_t n = 0; n < found.k; ++n, ++place)
      of_anchor.nearest.push_back({found.indices[place], found.weights[place]});
    for (const std::int32_t positive : rows.positives[static_cast<std::size_t>(chunk.first + i)])
      of_anchor.positives.push_back(
          static_cast<float>(dot(anchors.row(chunk.first + i), texts.row(positive))));
  }
  return all;
}

// The scores of a cross-encoder in the place of cosines. Collective: each rank computes those of
// its share of the anchors, which begin with number `first`.
void rescore(const Rows& rows, std::int64_t first, std::span<Candidates> candidates,
             const PairScorer& scorer, int threads, Communicator& comm) {
  const Range mine = blocks_of_rank(std::ssize(candidates), comm.rank(), comm.size());
  std::vector<float> scores;
  run_collectively(comm, [&] {
    std::vector<std::string> anchors, texts;
    std::vector<TextPair> pairs;
    const auto add = [&](std::int32_t text) {
      pairs.push_back({std::ssize(anchors) - 1, std::ssize(texts)});
      texts.emplace_back(rows.text(text));
    };
    for (std::int64_t i = mine.first; i < mine.last; ++i) {
      anchors.emplace_back(rows.anchor(first + i));
      for (const ScoredText& one : candidates[static_cast<std::size_t>(i)].nearest)
        if (!rows.is_excluded(first + i, one.text)) add(one.text);
      for (const std::int32_t text : rows.positives[static_cast<std::size_t>(first + i)]) add(text);
    }
    scores = scorer.scores(tokenize(scorer.tokenizer(), anchors, threads),
                           tokenize(scorer.tokenizer(), texts, threads), pairs);
  });
  const std::vector<float> all = comm.all_gather_v(std::span<const float>(scores));
  auto next = all.begin();
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    for (ScoredText& one : candidates[i].nearest) {
      const bool excluded = rows.is_excluded(first + static_cast<std::int64_t>(i), one.text);
      one.score = excluded ? -std::numeric_limits<float>::infinity() : *next++;
    }
    for (float& score : candidates[i].positives) score = *next++;
    sort_by_score(candidates[i].nearest);
  }
}

// Writes rows, and keeps count of them.
class Negatives {
 public:
  Negatives(const MiningStage& stage, const Rows& rows, const NegativeRules& rules,
            const std::filesystem::path& path)
      : stage_(stage), rows_(rows), rules_(rules), file_(path) {}

  void add(std::int64_t anchor, const Candidates& candidates) {
    const auto& positives = rows_.positives[static_cast<std::size_t>(anchor)];
    const std::vector<float>& scores = candidates.positives;
    const std::vector<ScoredText> chosen = rules_.choose(
        candidates.nearest, rows_.excluded(anchor), *std::ranges::min_element(scores), counts_);
    const bool triplets = stage_.options.rows == "triplet";
    if (triplets ? chosen.empty() : std::ssize(chosen) < stage_.options.negatives) {
      left_out_ += std::ssize(positives);
      return;
    }
    for (std::size_t i = 0; i < positives.size(); ++i) {
      positive_sum_ += scores[i];
      for (std::size_t n = 0; n < chosen.size(); n += triplets ? 1 : chosen.size())
        write(anchor, {positives[i], scores[i]},
              std::span(chosen).subspan(n, triplets ? 1 : chosen.size()));
    }
    kept_ += std::ssize(positives);
  }

  void commit(const std::filesystem::path& metrics) {
    file_.commit();
    nlohmann::ordered_json all{{"anchors", rows_.anchors.size()},
                               {"texts", rows_.texts.size()},
                               {"pairs", kept_ + left_out_},
                               {"pairs_with_too_few_negatives", left_out_},
                               {"rows", written_},
                               {"negatives", negatives_}};
    const char* score = stage_.cross_encoder.path.empty() ? "cosine" : "score";
    if (kept_ > 0)
      all[fmt::format("mean_positive_{}", score)] = positive_sum_ / static_cast<double>(kept_);
    if (negatives_ > 0)
      all[fmt::format("mean_negative_{}", score)] = negative_sum_ / static_cast<double>(negatives_);
    for (std::size_t r = 0; r < counts_.size(); ++r)
      all["left_out_by_rule"][NegativeRules::names[r]] = counts_[r];
    write_json(metrics, all);
  }
  std::int64_t written() const { return written_; }
  std::int64_t left_out() const { return left_out_; }

 private:
  void write(std::int64_t anchor, const ScoredText& positive,
             std::span<const ScoredText> negatives) {
    nlohmann::ordered_json line{{stage_.columns.anchor, rows_.anchor(anchor)},
                                {stage_.columns.positive, rows_.text(positive.text)}};
    std::vector<float> scores{positive.score};
    for (std::size_t n = 0; n < negatives.size(); ++n) {
      line[stage_.options.rows == "triplet" ? "negative" : fmt::format("negative_{}", n + 1)] =
          rows_.text(negatives[n].text);
      negative_sum_ += negatives[n].score;
      scores.push_back(negatives[n].score);
    }
    if (stage_.options.scores) {
      line["scores"] = scores;
      if (negatives.size() == 1) line["margin"] = scores[0] - scores[1];
    }
    negatives_ += std::ssize(negatives);
    ++written_;
    file_.write(line);
  }

  const MiningStage& stage_;
  const Rows& rows_;
  const NegativeRules& rules_;
  JsonlWriter file_;
  NegativeRules::Counts counts_{};
  std::int64_t kept_ = 0, left_out_ = 0, written_ = 0, negatives_ = 0;
  double positive_sum_ = 0, negative_sum_ = 0;
};

}  // namespace

void MiningVectorsStage::run(const StageContext& c, const MiningVectorFiles& out) const {
  std::optional<Rows> rows;
  run_collectively(c.comm, [&] { rows.emplace(tokens.train_of(0)); });
  // The rows' texts stand behind their prompts.
  const TextEncoder model(encoder.folder.path, infer, c.device, c.comm, c.log,
                          {encoder.pooling.kind(), ""});
  run_collectively(c.comm, [&] {
    for (const TokenDataset& column : rows->columns) column.check_tokenizer(model.tokenizer());
  });
  const auto leave = [&] { c.leave_if_asked(); };
  model.encode(source_of(rows->columns[0], rows->anchors), out.anchors, c.comm, leave);
  model.encode(source_of(rows->columns[1], rows->texts), out.texts, c.comm, leave);
}

std::vector<std::string> MinedColumns::settings() const {
  return {fmt::format("columns = {},{} {}", anchor, positive, prompts)};
}

void MiningStage::check() const {
  NegativeRules(options, 1);
  for (const std::string& name : {columns.anchor, columns.positive})
    if (options.scores && (name == "scores" || name == "margin"))
      throw usage_error(
          "--mining.scores true writes a column `{}`, as --embedding.columns calls one of the "
          "texts; rename that column in the file",
          name);
}

void MiningStage::run(const StageContext& c, const MinedFiles& out) const {
  std::optional<Rows> rows;
  std::optional<MappedMatrix> anchors, texts;
  std::optional<NegativeRules> rules;
  std::optional<Negatives> negatives;
  std::optional<PairScorer> scorer;
  run_collectively(c.comm, [&] {
    rows.emplace(tokens.train_of(0), columns.prompts);
    anchors.emplace(vectors.anchors), texts.emplace(vectors.texts);
    rules.emplace(options, rows->most);
    if (!cross_encoder.path.empty())
      scorer.emplace(cross_encoder.path, PairScore::relevance, infer, c.device);
  });
  on_root(c.comm, [&] { negatives.emplace(*this, *rows, *rules, out.rows); });
  const std::int64_t k = std::min(rules->nearest(), rows->texts.size());
  if (c.comm.is_root())
    c.log->info("{} anchors among {} texts, the nearest {} of each", rows->anchors.size(),
                rows->texts.size(), k);
  if (scorer && c.comm.is_root())
    c.log->info("cross-encoder {}: {}", cross_encoder.path.string(), scorer->describe());
  // Anchors between two looks at whether somebody asked to stop: a cross-encoder takes its time.
  const std::int64_t at_once = scorer ? rescored_anchors * c.comm.size() : chunk_anchors;
  Progress progress(c.log, "searching", rows->anchors.size(), "anchors", c.comm.is_root());
  for (std::int64_t first = 0; first < rows->anchors.size(); first += chunk_anchors) {
    const Range chunk{first, std::min(rows->anchors.size(), first + chunk_anchors)};
    const Neighbours found = nearest_texts(anchors->view(), texts->view(), chunk, k, c.comm);
    for (std::int64_t at = 0; at < chunk.size(); at += at_once) {
      const Range part{chunk.first + at, std::min(chunk.last, chunk.first + at + at_once)};
      std::vector<Candidates> candidates;
      if (scorer || c.comm.is_root())
        candidates = by_cosine(*rows, anchors->view(), texts->view(), part, found, at * k);
      if (scorer) rescore(*rows, part.first, candidates, *scorer, c.device.threads, c.comm);
      on_root(c.comm, [&] {
        for (std::int64_t i = 0; i < part.size(); ++i)
          negatives->add(part.first + i, candidates[static_cast<std::size_t>(i)]);
      });
      progress.advance(part.size());
      c.leave_together_if_asked();
    }
  }
  progress.finish();
  on_root(c.comm, [&] {
    if (negatives->written() == 0)
      throw input_error(
          "no anchor has enough negatives; ask for fewer (--mining.negatives), widen "
          "--mining.range-max or loosen the margins");
    if (negatives->left_out() > 0)
      c.log->warn("{} pairs have too few negatives and are left out", negatives->left_out());
    negatives->commit(out.metrics);
  });
}

}  // namespace gpuhpc
