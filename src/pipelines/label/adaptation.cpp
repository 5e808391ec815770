#include "gpuhpc/pipelines/label/adaptation.hpp"

#include <algorithm>
#include <fstream>
#include <functional>

#include "gpuhpc/base/error.hpp"
#include "gpuhpc/comm/run_collectively.hpp"
#include "gpuhpc/eval/label_list.hpp"
#include "gpuhpc/eval/rouge.hpp"
#include "gpuhpc/io/atomic_file.hpp"
#include "gpuhpc/io/json.hpp"
#include "gpuhpc/labels/lexical.hpp"
#include "gpuhpc/labels/named_texts.hpp"
#include "gpuhpc/labels/scoring.hpp"
#include "gpuhpc/pipelines/corpus_blocks.hpp"
#include "gpuhpc/pipelines/label/smoothing.hpp"

namespace gpuhpc {
namespace {

constexpr std::int64_t nearest = 5;        // by words, and by vectors
constexpr std::int64_t least_pairs = 500;  // of `auto`: fewer teach little
constexpr std::int64_t most_named = 1000;

// The document that each is paired with, or -1. Collective.
std::vector<std::int32_t> find_partners(const NeighbourPairing& pairing, const StageContext& c) {
  const CorpusNeighbours found =
      find_neighbours(TokenDataset(pairing.encoding.tokens), pairing.encoding.centred,
                      pairing.tfidf, pairing.neighbours, c.comm, c.device.threads);
  const std::vector<std::int32_t> own = nearest_in_both(found.sparse, found.dense, nearest);
  return c.comm.all_gather_v(std::span<const std::int32_t>(own));
}

void for_documents(const CorpusScan& scan,
                   const std::function<void(std::int64_t row, const Document&)>& work) {
  CorpusBlocks blocks(scan);
  std::int64_t row = 0;
  for (std::int64_t block = 0; block < scan.blocks(); ++block) {
    std::vector<Document> documents;
    blocks.read(block, documents);
    for (const Document& document : documents) work(row++, document);
  }
}

// How many pairs were written.
std::int64_t write_pairs(const CorpusPairsStage& stage, std::span<const std::int32_t> partners,
                         const Log& log, const std::filesystem::path& path) {
  const CorpusScan& scan = stage.corpus.scan;
  const bool of_sentences = stage.kind.value != "neighbours";
  const std::int64_t documents = scan.documents(),
                     most = stage.texts.most == 0 ? documents : stage.texts.most,
                     learnt_from = std::min(documents, most);
  std::optional<TokenDataset> texts;
  if (stage.neighbours) texts.emplace(stage.neighbours->encoding.tokens);
  AtomicFile file(path);
  const auto write = [&](std::string_view anchor, std::string_view positive) {
    file.write(Json{{"anchor", anchor}, {"positive", positive}}.dump() + "\n");
  };
  std::int64_t sentences = 0, neighbours = 0;
  for_documents(scan, [&](std::int64_t row, const Document& document) {
    if (!evenly_chosen(row, most, documents)) return;
    const std::int64_t partner = texts ? partners[static_cast<std::size_t>(row)] : -1;
    if (partner >= 0 && texts->text(partner) != document.text) {
      write(document.text, texts->text(partner));
      ++neighbours;
    }
    if (!of_sentences) return;
    const std::string first = first_sentence(document.text);
    const std::string_view rest = trimmed(std::string_view(document.text).substr(first.size()));
    if (rest.empty() || trimmed(first).empty()) return;
    write(first, rest);
    ++sentences;
  });
  if (sentences + neighbours < 2 && !stage.kind.may_be_dropped())
    throw input_error(
        "{}: of its {} texts {} have more than one sentence and {} a neighbour, and "
        "--pipeline.adapt {} learns from those; leave it out",
        scan.path.string(), learnt_from, sentences, neighbours, stage.kind.value);
  file.commit();
  if (learnt_from < documents)
    log->info("{} of the {} texts are looked at, spread evenly (--pipeline.adapt-texts)",
              learnt_from, documents);
  if (of_sentences)
    log->info("{} pairs of a text's first sentence and the rest of it; {} texts have no two",
              sentences, learnt_from - sentences);
  if (texts)
    log->info("{} pairs of a text and its neighbour by words and by vectors; {} texts have none",
              neighbours, learnt_from - neighbours);
  return sentences + neighbours;
}

void write_named_texts(const AdaptationChoiceStage& stage, const std::filesystem::path& path) {
  const CorpusScan& scan = stage.corpus.scan;
  const Taxonomy taxonomy = stage.classes.taxonomy.load();
  LexicalEvidence lexical(taxonomy);
  lexical.set_idf(std::vector<float>(static_cast<std::size_t>(lexical.terms()), 1));
  std::vector<float> evidence(taxonomy.paths().size());
  std::vector<Json> named;
  for_documents(scan, [&](std::int64_t row, const Document& document) {
    if (!evenly_chosen(row, documents_for_named_texts, scan.documents())) return;
    lexical.evidence(document.text, evidence);
    if (const auto one = named_path(evidence))
      named.push_back({{"text", document.text}, {"path", *one}});
  });
  JsonlWriter writer(path);
  for (std::int64_t i = 0; i < std::ssize(named); ++i)
    if (evenly_chosen(i, most_named, std::ssize(named)))
      writer.write(named[static_cast<std::size_t>(i)]);
  writer.commit();
}

// How high the vectors of an encoder rank the classes that texts name (mean reciprocal rank).
// Collective.
double rank_named(const AdaptationChoiceStage& stage, const std::filesystem::path& encoder,
                  std::span<const std::string> texts, const std::vector<std::int64_t>& paths,
                  const StageContext& c) {
  const TextEncoder text_encoder(encoder, stage.infer, c.device, c.comm, c.log,
                                 {stage.as_it_is.pooling.kind(), stage.as_it_is.prompt.given});
  Matrix documents = text_encoder.encode(texts, c.comm);
  EncodedClasses classes = encode_classes(stage.classes, text_encoder, c.comm);
  centre_all(documents.view(), stage.classes.centring.share);
  centre_all(classes.vectors.view(), stage.classes.centring.share);
  const Matrix of_paths = path_vectors(classes.taxonomy, std::as_const(classes.vectors).view());
  Matrix scores(documents.rows, of_paths.rows);
  score_paths(documents.view(), of_paths.view(), scores.view());
  const std::vector<float> hubness(static_cast<std::size_t>(of_paths.rows));
  return mean_reciprocal_rank({documents.rows, of_paths.rows, std::move(scores.values), paths},
                              hubness, 0);
}

// Whether the encoder learnt to rank the classes that texts name lower. Collective.
bool is_harmed(const AdaptationChoiceStage& stage, const std::filesystem::path& named,
               const StageContext& c) {
  std::vector<std::string> texts;
  std::vector<std::int64_t> paths;
  run_collectively(c.comm, [&] {
    std::ifstream file(named);
    for (std::string line; std::getline(file, line);) {
      const Json row = parse_json(line, named.string());
      texts.push_back(row.at("text"));
      paths.push_back(row.at("path"));
    }
  });
  if (texts.empty()) {
    c.log->info(
        "no text holds the whole name of one class: whether the adaptation helps cannot be told, "
        "and it is kept");
    return false;
  }
  const double before = rank_named(stage, stage.as_it_is.path(), texts, paths, c);
  c.leave_together_if_asked();
  const double after = rank_named(stage, stage.adapted.model, texts, paths, c);
  c.log->info(
      "{} texts hold the whole name of one class; the encoder as it was ranks it with a mean "
      "reciprocal of {:.4f}, the adapted one with {:.4f}{}",
      texts.size(), before, after, after < before ? " (a fall warns of worse labels)" : "");
  return after < before;
}

}  // namespace

LearntSets corpus_pairs(const ModelFiles& encoder, const PromptOption& prompt) {
  const EmbeddingOptions options = with_prompts({}, read_model_folder(encoder.path), prompt.given);
  return {{{"", 1, options.files, options.loss}}};
}

void CorpusPairsStage::run(const StageContext& c, const CorpusPairFiles& out) const {
  std::vector<std::int32_t> partners;
  if (neighbours) partners = find_partners(*neighbours, c);
  std::int64_t pairs = 0;  // of the root
  on_root(c.comm, [&] { pairs = write_pairs(*this, partners, c.log, out.pairs); });
  pairs = c.comm.all_reduce_value(pairs);
  PairDataset rows{"", 1, columns, {}};
  if (!kind.may_be_dropped() || pairs >= least_pairs)
    rows.files.train = out.pairs.string();
  else
    c.log->info("fewer than {} pairs teach little: the encoder stays as it is", least_pairs);
  const PairInputs inputs = find_pairs({rows}, rows.files, "auto", c.comm);
  tokenize_pairs(inputs.learnt, inputs.test, encoder, shards, c, out);
}

void AdaptationChoiceStage::run(const StageContext& c, const AdaptationChoiceFiles& out) const {
  bool taken = !std::filesystem::is_empty(adapted.model);
  on_root(c.comm, [&] {
    if (taken)
      write_named_texts(*this, out.named);
    else
      write_text_file(out.named, "");
  });
  if (taken && is_harmed(*this, out.named, c) && kind.may_be_dropped()) {
    c.log->info("the encoder stays as it was (--pipeline.adapt sentences: the adapted one labels)");
    taken = false;
  }
  if (taken && infer.max_length == 0) {
    const auto limit = [](const std::filesystem::path& model) {
      const ModelFolder folder = read_model_folder(model);
      return folder.embedding.max_tokens > 0 ? folder.embedding.max_tokens
                                             : folder.encoder.max_tokens();
    };
    const std::int64_t before = limit(as_it_is.path()), now = limit(adapted.model);
    if (now < before)
      c.log->info(
          "of a text it reads {} tokens from now on, as it learnt, not {} (--infer.max-length)",
          now, before);
  }
  on_root(c.comm, [&] { write_json(out.choice, Json(taken ? "adapted" : "as it is")); });
}

}  // namespace gpuhpc
