#include "gpuhpc/pipelines/label/adaptation.hpp"

#include "gpuhpc/base/error.hpp"
#include "gpuhpc/comm/run_collectively.hpp"
#include "gpuhpc/eval/label_list.hpp"
#include "gpuhpc/eval/rouge.hpp"
#include "gpuhpc/io/atomic_file.hpp"
#include "gpuhpc/io/json.hpp"
#include "gpuhpc/pipelines/label/smoothing.hpp"

namespace gpuhpc {
namespace {

constexpr std::int64_t nearest = 5;  // by words, and by vectors

// The document that each is paired with, or -1. Collective.
std::vector<std::int32_t> find_partners(const NeighbourPairing& pairing, const StageContext& c) {
  const CorpusNeighbours found =
      find_neighbours(TokenDataset(pairing.encoding.tokens), pairing.encoding.centred,
                      pairing.tfidf, pairing.neighbours, c.comm, c.device.threads);
  const std::vector<std::int32_t> own = nearest_in_both(found.sparse, found.dense, nearest);
  return c.comm.all_gather_v(std::span<const std::int32_t>(own));
}

void write_pairs(const CorpusPairsStage& stage, std::span<const std::int32_t> partners,
                 const StageContext& c, const std::filesystem::path& path) {
  const bool of_sentences = stage.kind.value != "neighbours";
  std::optional<TokenDataset> texts;
  if (stage.neighbours) texts.emplace(stage.neighbours->encoding.tokens);
  AtomicFile file(path);
  const auto write = [&](std::string_view anchor, std::string_view positive) {
    file.write(Json{{"anchor", anchor}, {"positive", positive}}.dump() + "\n");
  };
  std::int64_t sentences = 0, neighbours = 0, row = 0;
  CorpusBlocks blocks(stage.corpus.scan);
  for (std::int64_t block = 0; block < stage.corpus.scan.blocks(); ++block) {
    std::vector<Document> documents;
    blocks.read(block, documents);
    for (const Document& document : documents) {
      const std::int64_t partner = texts ? partners[static_cast<std::size_t>(row)] : -1;
      ++row;
      if (partner >= 0 && texts->text(partner) != document.text) {
        write(document.text, texts->text(partner));
        ++neighbours;
      }
      if (!of_sentences) continue;
      const std::string first = first_sentence(document.text);
      const std::string_view rest = trimmed(std::string_view(document.text).substr(first.size()));
      if (rest.empty() || trimmed(first).empty()) continue;
      write(first, rest);
      ++sentences;
    }
  }
  if (sentences + neighbours < 2)
    throw input_error(
        "{}: of its {} texts {} have more than one sentence and {} a neighbour, and "
        "--pipeline.adapt {} learns from those; leave it out",
        stage.corpus.scan.path.string(), row, sentences, neighbours, stage.kind.value);
  file.commit();
  if (of_sentences)
    c.log->info("{} pairs of a text's first sentence and the rest of it; {} texts have no two",
                sentences, row - sentences);
  if (texts)
    c.log->info("{} pairs of a text and its neighbour by words and by vectors; {} texts have none",
                neighbours, row - neighbours);
}

}  // namespace

LearntSets corpus_pairs(const ModelFiles& encoder, const PromptOption& prompt) {
  const EmbeddingOptions options = with_prompts({}, read_model_folder(encoder.path), prompt.given);
  return {{{"", 1, options.files, options.loss}}};
}

void CorpusPairsStage::run(const StageContext& c, const CorpusPairFiles& out) const {
  std::vector<std::int32_t> partners;
  if (neighbours) partners = find_partners(*neighbours, c);
  on_root(c.comm, [&] { write_pairs(*this, partners, c, out.pairs); });
  PairDataset rows{"", 1, columns, {}};
  rows.files.train = out.pairs.string();
  const PairInputs inputs = find_pairs({rows}, rows.files, "auto", c.comm);
  tokenize_pairs(inputs.learnt, inputs.test, encoder, shards, c, out);
}

}  // namespace gpuhpc
