#include "gpuhpc/pipelines/label/adaptation.hpp"

#include "gpuhpc/base/error.hpp"
#include "gpuhpc/comm/run_collectively.hpp"
#include "gpuhpc/eval/label_list.hpp"
#include "gpuhpc/eval/rouge.hpp"
#include "gpuhpc/io/atomic_file.hpp"
#include "gpuhpc/io/json.hpp"

namespace gpuhpc {

LearntSets sentence_pairs(const ModelFiles& encoder, const PromptOption& prompt) {
  const EmbeddingOptions options = with_prompts({}, read_model_folder(encoder.path), prompt.given);
  return {{{"", 1, options.files, options.loss}}};
}

void SentencePairsStage::run(const StageContext& c, const SentencePairFiles& out) const {
  on_root(c.comm, [&] {
    CorpusBlocks blocks(corpus.scan);
    AtomicFile file(out.pairs);
    std::int64_t pairs = 0;
    for (std::int64_t block = 0; block < corpus.scan.blocks(); ++block) {
      std::vector<Document> documents;
      blocks.read(block, documents);
      for (const Document& document : documents) {
        const std::string first = first_sentence(document.text);
        const std::string_view rest = trimmed(std::string_view(document.text).substr(first.size()));
        if (rest.empty() || trimmed(first).empty()) continue;
        file.write(Json{{"anchor", first}, {"positive", rest}}.dump() + "\n");
        ++pairs;
      }
    }
    if (pairs < 2)
      throw input_error(
          "{}: {} of its {} texts have more than one sentence, and --pipeline.adapt sentences "
          "learns from those; leave it out",
          corpus.scan.path.string(), pairs, corpus.scan.documents());
    file.commit();
    c.log->info("{} pairs of a text's first sentence and the rest of it; {} texts have no two",
                pairs, corpus.scan.documents() - pairs);
  });
  PairDataset rows{"", 1, columns, {}};
  rows.files.train = out.pairs.string();
  const PairInputs inputs = find_pairs({rows}, rows.files, "auto", c.comm);
  tokenize_pairs(inputs.learnt, inputs.test, encoder, shards, c, out);
}

}  // namespace gpuhpc
