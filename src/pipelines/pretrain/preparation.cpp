#include "gpuhpc/pipelines/pretrain/preparation.hpp"

#include <algorithm>

#include "gpuhpc/base/progress.hpp"
#include "gpuhpc/comm/run_collectively.hpp"
#include "gpuhpc/io/atomic_file.hpp"
#include "gpuhpc/nn/masked_language_model.hpp"
#include "gpuhpc/text/tokenizer.hpp"
#include "gpuhpc/text/vocabulary_training.hpp"

namespace gpuhpc {
namespace {

// What this rank has counted is added to what the others have.
WordCounts merged(const WordCounts& mine, Communicator& comm) {
  std::vector<std::int64_t> numbers;  // length and count of each word
  std::vector<std::uint8_t> bytes;
  for (const auto& [word, times] : mine) {
    numbers.insert(numbers.end(), {std::ssize(word), times});
    bytes.insert(bytes.end(), word.begin(), word.end());
  }
  numbers = comm.all_gather_v(std::span<const std::int64_t>(numbers));
  bytes = comm.all_gather_v(std::span<const std::uint8_t>(bytes));
  WordCounts all(mine.kind());
  const char* word = reinterpret_cast<const char*>(bytes.data());
  for (std::size_t i = 0; i < numbers.size(); i += 2) {
    const auto length = static_cast<std::size_t>(numbers[i]);
    all.add(std::string_view(word, length), numbers[i + 1]);
    word += length;
  }
  return all;
}

nlohmann::ordered_json new_config(const std::string& size, bool roberta, const Tokenizer& words) {
  const auto [layers, width] = new_bert_size(size);
  nlohmann::ordered_json config = {
      {"architectures", {roberta ? "RobertaForMaskedLM" : "BertForMaskedLM"}},
      {"model_type", roberta ? "roberta" : "bert"},
      {"vocab_size", words.vocabulary_size()},
      {"hidden_size", width},
      {"num_hidden_layers", layers},
      {"num_attention_heads", width / 64},
      {"intermediate_size", 4 * width},
      {"hidden_act", "gelu"},
      {"hidden_dropout_prob", .1},
      {"attention_probs_dropout_prob", .1},
      {"max_position_embeddings", roberta ? 514 : 512},  // its positions begin behind the padding's
      {"type_vocab_size", roberta ? 1 : 2},
      {"initializer_range", .02},
      {"layer_norm_eps", roberta ? 1e-5 : 1e-12},
      {"pad_token_id", std::max(0, words.special().pad)}};
  if (roberta) config.update({{"bos_token_id", 0}, {"eos_token_id", 2}});
  return config;
}

}  // namespace

void VocabularyStage::run(const StageContext& c, const VocabularyFiles& out) const {
  const Subwords kind = options.tokenizer == "bpe" ? Subwords::bytes : Subwords::wordpiece;
  WordCounts counts(kind);
  Progress reading(c.log, "counting words", texts.documents(), "texts", c.comm.is_root());
  run_long(c.comm, [&] {
    std::vector<Document> documents;
    for (const CorpusScan& file : texts.files) {
      CorpusBlocks blocks(file);
      const Range mine = blocks_of_rank(file.blocks(), c.comm.rank(), c.comm.size());
      for (std::int64_t block = mine.first; block < mine.last; ++block) {
        documents.clear();
        blocks.read(block, documents);
        for (const Document& document : documents) counts.add(document.text);
        reading.advance(std::ssize(documents));
        c.leave_if_asked();
      }
    }
  });
  reading.finish();
  if (c.comm.size() > 1) counts = merged(counts, c.comm);
  run_long(c.comm, [&] {
    if (!c.comm.is_root()) return;
    VocabularySettings settings;
    settings.size = options.size;
    settings.special = special_tokens(kind);
    Progress merging(c.log, "merging", options.size, "entries", true);
    const LearntVocabulary vocabulary = learn_vocabulary(counts, settings, [&] {
      merging.advance(1);
      c.leave_if_asked();
    });
    merging.finish();
    const auto entries = std::ssize(vocabulary.tokens);
    c.log->info("{} different words, a vocabulary of {} entries", counts.size(), entries);
    if (entries < options.size)
      c.log->warn(
          "--pretrain.vocabulary {}: these texts give {} entries, since no other pair of pieces "
          "occurs twice; the model has that many",
          options.size, entries);
    write_tokenizer(out.tokenizer, vocabulary);
  });
}

void NewModelStage::run(const StageContext& c, const NewModelFiles& out) const {
  on_root(c.comm, [&] {
    const auto words = load_tokenizer(tokenizer.folder());
    const bool roberta = vocabulary && vocabulary->tokenizer == "bpe";
    const nlohmann::ordered_json config = new_config(options.model, roberta, *words);
    create_folder(out.model);
    write_json(out.model / "config.json", config);
    const auto start = static_cast<std::uint64_t>(seed.value);
    Encoder encoder(read_encoder_config(out.model / "config.json"), at::kCPU);
    encoder.initialise(start);
    const MaskedLanguageHead head(encoder.config(), start + 1, at::kCPU);
    std::vector<NamedParameter> weights;
    std::int64_t parameters = 0;
    for (const auto& [name, value] : encoder.parameters())
      weights.push_back({(roberta ? "roberta." : "bert.") + name, value});
    weights.insert(weights.end(), head.parameters().begin(), head.parameters().end());
    for (const NamedParameter& weight : weights) parameters += weight.value.numel();
    save_model_folder(out.model, weights, config, tokenizer.folder());
    const auto [layers, width] = new_bert_size(options.model);
    c.log->info("a new {} {}: {} layers of {}, vocabulary {}, {} parameters", options.model,
                roberta ? "RoBERTa" : "BERT", layers, width, words->vocabulary_size(), parameters);
  });
}

void TextTokensStage::run(const StageContext& c, const TextTokenFiles& out) const {
  std::unique_ptr<Tokenizer> words;
  run_collectively(c.comm, [&] { words = load_tokenizer(tokenizer.folder()); });
  Progress progress(c.log, "tokenizing", texts.documents(), "texts", c.comm.is_root());
  for (std::size_t i = 0; i < texts.files.size(); ++i)
    prepare_shards(texts.files[i], *words, out.tokens / std::to_string(i), shards, Texts::leave,
                   c.comm, c.device.threads, [&](std::int64_t done) {
                     progress.advance(done);
                     c.leave_if_asked();
                   });
  progress.finish();
}

}  // namespace gpuhpc
