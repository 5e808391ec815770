#include "gpuhpc/pipelines/pretrain/preparation.hpp"

#include <algorithm>

#include "gpuhpc/base/progress.hpp"
#include "gpuhpc/comm/run_collectively.hpp"
#include "gpuhpc/io/atomic_file.hpp"
#include "gpuhpc/nn/masked_language_model.hpp"
#include "gpuhpc/text/tokenizer.hpp"

namespace gpuhpc {
namespace {

// Layers and width; heads of 64, four times the width in between (Turc et al. 2019; Devlin et al.
// 2019).
std::pair<std::int64_t, std::int64_t> size_of(const std::string& name) {
  if (name == "small") return {4, 256};
  return name == "medium" ? std::pair<std::int64_t, std::int64_t>{12, 768}
                          : std::pair<std::int64_t, std::int64_t>{24, 1024};
}

}  // namespace

void NewModelStage::run(const StageContext& c, const NewModelFiles& out) const {
  on_root(c.comm, [&] {
    const auto words = load_tokenizer(tokenizer.path);
    const auto [layers, width] = size_of(options.model);
    const nlohmann::ordered_json config = {{"architectures", {"BertForMaskedLM"}},
                                           {"model_type", "bert"},
                                           {"vocab_size", words->vocabulary_size()},
                                           {"hidden_size", width},
                                           {"num_hidden_layers", layers},
                                           {"num_attention_heads", width / 64},
                                           {"intermediate_size", 4 * width},
                                           {"hidden_act", "gelu"},
                                           {"hidden_dropout_prob", .1},
                                           {"attention_probs_dropout_prob", .1},
                                           {"max_position_embeddings", 512},
                                           {"type_vocab_size", 2},
                                           {"initializer_range", .02},
                                           {"layer_norm_eps", 1e-12},
                                           {"pad_token_id", std::max(0, words->special().pad)}};
    create_folder(out.model);
    write_json(out.model / "config.json", config);
    const auto start = static_cast<std::uint64_t>(seed.value);
    Encoder encoder(read_encoder_config(out.model / "config.json"), at::kCPU);
    encoder.initialise(start);
    const MaskedLanguageHead head(encoder.config(), start + 1, at::kCPU);
    std::vector<NamedParameter> weights;
    std::int64_t parameters = 0;
    for (const auto& [name, value] : encoder.parameters())
      weights.push_back({"bert." + name, value});
    weights.insert(weights.end(), head.parameters().begin(), head.parameters().end());
    for (const NamedParameter& weight : weights) parameters += weight.value.numel();
    save_model_folder(out.model, weights, config, tokenizer.path);
    c.log->info("a new {} BERT: {} layers of {}, vocabulary {}, {} parameters", options.model,
                layers, width, words->vocabulary_size(), parameters);
  });
}

void TextTokensStage::run(const StageContext& c, const TextTokenFiles& out) const {
  std::unique_ptr<Tokenizer> words;
  run_collectively(c.comm, [&] { words = load_tokenizer(tokenizer.path); });
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
