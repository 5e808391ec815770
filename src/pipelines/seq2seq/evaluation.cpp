#include "gpuhpc/pipelines/seq2seq/evaluation.hpp"

#include <fmt/ranges.h>

#include <cmath>
#include <optional>

#include "gpuhpc/base/progress.hpp"
#include "gpuhpc/comm/run_collectively.hpp"
#include "gpuhpc/eval/rouge.hpp"
#include "gpuhpc/infer/generate.hpp"
#include "gpuhpc/io/atomic_file.hpp"
#include "gpuhpc/io/json.hpp"
#include "gpuhpc/nn/t5.hpp"
#include "gpuhpc/pipelines/model_card.hpp"
#include "gpuhpc/text/tokenizer.hpp"

namespace gpuhpc {
namespace {

// Evenly spread over the held-out pairs.
std::vector<std::int64_t> measured_items(const std::vector<std::int64_t>& held_out,
                                         std::int64_t most) {
  std::vector<std::int64_t> items;
  const std::int64_t count = std::min(most, std::ssize(held_out));
  for (std::int64_t i = 0; i < count; ++i)
    items.push_back(held_out[static_cast<std::size_t>(i * std::ssize(held_out) / count)]);
  return items;
}

struct Measured {
  std::vector<Rouge> trained, first_sentences;
  Json samples = Json::array();
};

Measured measure(const Seq2SeqTask& task, const std::vector<std::int64_t>& items,
                 const std::vector<std::string>& texts, const std::string& prefix) {
  constexpr std::size_t shown = 20;
  Measured measured;
  const std::size_t every = std::max<std::size_t>(1, items.size() / shown);
  for (std::size_t i = 0; i < items.size(); ++i) {
    std::string_view source = task.text(items[i], 0), target = task.text(items[i], 1);
    if (source.starts_with(prefix)) source.remove_prefix(prefix.size());
    measured.trained.push_back(rouge(target, texts[i]));
    measured.first_sentences.push_back(rouge(target, first_sentence(source)));
    if (i % every == 0) measured.samples.push_back({source, target, texts[i]});
  }
  return measured;
}

void add_row(const char* name, const std::vector<Rouge>& texts, std::string& table, Json& metrics) {
  table += name;
  const auto means = mean_rouge(texts);
  for (std::size_t i = 0; i < means.size(); ++i) {
    table += fmt::format("\t{:.4f} [{:.4f}, {:.4f}]", means[i].mean, means[i].low, means[i].high);
    const std::string figure = rouge_names[i];
    metrics[name][figure] = means[i].mean;
    metrics[name][figure + "_low"] = means[i].low, metrics[name][figure + "_high"] = means[i].high;
  }
  table += "\n";
}

// The model's README.md.
ModelCard card_of(const Seq2SeqEvaluationStage& stage, const Json& metrics) {
  const T5Config config = read_t5_config(stage.trained.model / "config.json");
  ModelCard card;
  card.front =
      "library_name: transformers\npipeline_tag: text2text-generation\ntags:\n- "
      "text2text-generation\n";
  card.title = "Sequence-to-sequence model";
  card.about = fmt::format(
      "Writes a text for a text: a T5 with {} parameters and a vocabulary of {}.\nTrained by "
      "gpuhpc; "
      "sources were cut after {} tokens, targets after {}. The prefix of its sources: `{}`.",
      t5_parameter_count(config), config.vocabulary_size, stage.learning.options.source_length,
      stage.learning.options.target_length, stage.prefix.text);
  card.use =
      "```python\nfrom transformers import AutoModelForSeq2SeqLM, AutoTokenizer\n\nmodel = "
      "AutoModelForSeq2SeqLM.from_pretrained(\"FOLDER\")\ntokenizer = "
      "AutoTokenizer.from_pretrained(\"FOLDER\")\n```\n\n```\ngpuhpc generate --model.dir FOLDER "
      "--input.file texts.jsonl --output.file written.jsonl\n```\n";
  card.data = {{"used to", "pairs"}};
  for (const auto& [role, folder] : {std::pair("learn", &stage.learning.tokens.train),
                                     std::pair("validate", &stage.learning.tokens.validation)})
    if (const auto columns = open_datasets(*folder); !columns.empty())
      card.data.push_back({role, std::to_string(columns.front().size())});
  if (metrics.contains("trained")) {
    card.scores = {{"model", "loss of a target's token", "perplexity"}};
    for (const char* which : {"start", "trained"})
      card.scores.push_back(
          {which, fmt::format("{:.4f}", metrics.at(which).at("loss").get<double>()),
           fmt::format("{:.2f}", metrics.at(which).at("perplexity").get<double>())});
  }
  for (const auto& lines : {config::settings_of(stage.learning.options),
                            config::settings_of(stage.learning.training.encoder),
                            config::settings_of(stage.learning.training.trainer.train)})
    card.settings.insert(card.settings.end(), lines.begin(), lines.end());
  return card;
}

}  // namespace

void Seq2SeqEvaluationStage::run(const StageContext& c, const Seq2SeqEvaluationFiles& out) const {
  Json metrics = Json::object();
  std::string table;
  Json samples = Json::array();
  for (const bool after : {false, true}) {
    const char* const name = after ? "trained" : "start";
    std::optional<Seq2SeqSession> session;
    run_collectively(c.comm, [&] {
      session.emplace(learning, after ? trained.model : learning.start.folder(), c);
    });
    metrics["held_out_pairs"] = session->held_out.size();
    if (session->held_out.empty()) continue;
    const double loss =
        mean_loss(session->task, session->held_out, learning.training.trainer.train, c.comm);
    metrics[name] = {{"loss", loss}, {"perplexity", std::exp(loss)}};
    if (c.comm.is_root())
      c.log->info("{}: perplexity {:.2f} of a target's token in {} held-out pairs", name,
                  std::exp(loss), session->held_out.size());
    const std::vector<std::int64_t> items = measured_items(session->held_out, options.rouge_rows);
    if (!after || items.empty()) continue;
    const Seq2SeqTask& task = session->task;
    const T5Generator generator(session->loaded.model, session->form(),
                                learning.options.source_length, generation, infer, c.device);
    const TokenSource sources{
        std::ssize(items),
        [&](std::int64_t i) { return task.tokens(items[static_cast<std::size_t>(i)], 0); },
        {}};
    Progress progress(c.log, "generating", std::ssize(items), "texts", c.comm.is_root());
    std::vector<std::string> texts;
    for (const TokenList& tokens : generator.generate_together(
             sources, 0, c.comm, [&](std::int64_t done) { progress.advance(done); }))
      texts.push_back(session->tokenizer->decode(tokens));
    progress.finish();
    on_root(c.comm, [&] {
      Measured measured = measure(task, items, texts, prefix.text);
      table = fmt::format("texts\t{}\n", fmt::join(rouge_names, "\t"));
      metrics["generated_pairs"] = items.size();
      add_row("trained", measured.trained, table, metrics["rouge"]);
      add_row("lead-1", measured.first_sentences, table, metrics["rouge"]);
      samples = std::move(measured.samples);
    });
  }
  on_root(c.comm, [&] {
    write_json(out.metrics, metrics);
    write_text_file(out.table, table);
    write_json(out.samples,
               Json::array({{{"title", "Generated texts"},
                             {"about", "Of held-out pairs, spread evenly over all of them."},
                             {"columns", {"source", "target", "text"}},
                             {"rows", samples}}}));
    save_with_card(trained.model, out.model, card_of(*this, metrics));
  });
}

}  // namespace gpuhpc
