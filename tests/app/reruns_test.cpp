// Every option of the program, changed: which stages run again, in a pipeline of each shape. The
// table in fixtures/reruns.tsv says what is right; an option that is not in it fails the test.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <map>
#include <set>
#include <sstream>

#include "gpuhpc/app/ledger.hpp"
#include "gpuhpc/app/options.hpp"
#include "gpuhpc/base/error.hpp"
#include "gpuhpc/io/atomic_file.hpp"
#include "gpuhpc/pipelines/embedding/pipeline.hpp"
#include "gpuhpc/pipelines/label/taxoclass/pipeline.hpp"
#include "gpuhpc/pipelines/label/teleclass/pipeline.hpp"
#include "gpuhpc/pipelines/pretrain/pipeline.hpp"
#include "gpuhpc/pipelines/seq2seq/pipeline.hpp"

namespace gpuhpc {
namespace {
namespace fs = std::filesystem;

using Arguments = std::vector<std::string>;
using Fingerprints = std::map<std::string, std::string>;

const std::vector<std::string> kValues = {
    "true",      "false",   "0.37",       "77",          "7000",        "7",
    "3",         "names",   "classifier", "words",       "sigmoid-exp", "name",
    "posterior", "pseudo",  "constant",   "lamb",        "linear",      "bf16",
    "fp32",      "best",    "avx2",       "mean",        "threshold",   "none",
    "zero1",     "csv",     "cpu",        "10-12",       "a,b",         "mnrl-symmetric",
    "manhattan", "cls",     "triplet",    "int8",        "ndcg_at_10",  "skip",
    "mlm",       "texts=2", "bpe",        "round-robin", "paraphrases", "{\"anchor\": \"query: \"}",
    "1"};

class Reruns : public testing::Test {
 protected:
  void SetUp() override {
    create_folder(root_ / "encoder");
    create_folder(root_ / "other");
    const std::string config =
        R"({"model_type": "bert", "vocab_size": 9, "hidden_size": 8192, "num_hidden_layers": 1,)"
        R"( "num_attention_heads": 8, "intermediate_size": 9, "max_position_embeddings": 99})";
    write_text_file(root_ / "encoder/config.json", config);
    write_text_file(root_ / "other/config.json", config + " ");
    for (const char* name : {"labels", "hierarchy"}) write_text_file(root_ / name, name);
    inputs_.taxonomy = {root_ / "labels", root_ / "hierarchy"};
    inputs_.train.scan.content = "0123";
    inputs_.test.scan.content = "4567";
  }
  void TearDown() override { fs::remove_all(root_); }

  // Stage -> fingerprint with these options; nothing when they are not allowed.
  Fingerprints fingerprints(Arguments arguments) const {
    Options options;
    config::OptionSet set;
    declare_options(set, options);
    for (const char* option : {"--model.encoder=", "--taxoclass.nli-model="})
      arguments.insert(arguments.begin(), option + (root_ / "encoder").string());
    const bool embedding = std::erase(arguments, "train-embedding") > 0,
               pretrain = std::erase(arguments, "pretrain") > 0,
               mining = std::erase(arguments, "mine") > 0,
               seq2seq = std::erase(arguments, "train-seq2seq") > 0;
    set.parse({}, arguments);
    const Pipeline stages = embedding  ? embedding_stages(options)
                            : pretrain ? pretrain_stages(options)
                            : mining   ? mining_stages(options)
                            : seq2seq  ? seq2seq_stages(options)
                                       : label_stages(options);
    const std::vector<std::string> hashes = stage_fingerprints(stages.stages());
    Fingerprints found;
    for (std::size_t i = 0; i < hashes.size(); ++i) found[stages.stages()[i].name] = hashes[i];
    return found;
  }

  Pipeline label_stages(const Options& options) const {
    const auto pipeline =
        options.pipeline.method == "taxoclass" ? taxoclass_pipeline : teleclass_pipeline;
    LabelInputs inputs = inputs_;
    inputs.train.scan.options = inputs.test.scan.options = options.shared.corpus;
    inputs.labels = {options.shared.input.labels};
    return pipeline(options.shared, options.label, inputs, root_ / "run");
  }
  PairInputs pairs(const Options& options) const {
    PairInputs inputs;
    for (const PairDataset& set : pair_datasets(options.embedding)) {
      ScannedRows& rows = inputs.learnt.sets.emplace_back().train;
      rows.scan = inputs_.train.scan;
      rows.scan->marks = {{}};
      rows.scan->options.rows = {.texts = set.files.column_names(),
                                 .prompts = set.files.prompts_of(set.files.column_names())};
    }
    return inputs;
  }
  Pipeline embedding_stages(const Options& options) const {
    return embedding_pipeline(options.shared, options.embedding, pairs(options), root_ / "run");
  }
  Pipeline mining_stages(const Options& options) const {
    return mining_pipeline(options.shared, options.embedding, pairs(options), root_ / "run");
  }

  Pipeline pretrain_stages(const Options& options) const {
    PretrainInputs inputs;
    inputs.files.push_back(inputs_.train.scan);
    inputs.files.back().options = options.shared.corpus;
    inputs.files.back().marks = {{}};
    inputs.corpora = {"texts"};
    return pretrain_pipeline(options.shared, options.pretrain, inputs, root_ / "run").stages;
  }

  Pipeline seq2seq_stages(const Options& options) const {
    const Seq2SeqFileOptions& files = options.seq2seq.files;
    Seq2SeqInputs inputs;
    inputs.train.scan = inputs_.train.scan;
    inputs.train.scan->marks = {{}};
    inputs.train.scan->options.rows = {.texts = files.column_names(),
                                       .prompts = {files.prefix, ""}};
    return seq2seq_pipeline(options.shared, options.seq2seq, inputs, root_ / "run");
  }

  // The same options with another value of `name`: what another shape had, or the first of kValues
  // that it may have.
  Fingerprints changed(const Arguments& arguments, const std::string& name) {
    Options options;
    config::OptionSet set;
    declare_options(set, options);
    Arguments given = arguments;
    for (const char* job : {"train-embedding", "pretrain", "mine", "train-seq2seq"})
      std::erase(given, job);
    set.parse({}, given);
    const std::string now = set.value(name), path = (root_ / "other").string();
    std::vector<std::string> values = kValues;
    values.push_back(path);
    if (accepted_.contains(name)) values.insert(values.begin(), accepted_.at(name));
    for (const std::string& value : values) {
      if (value == now) continue;
      Arguments other = arguments;
      other.push_back("--" + name + "=" + value);
      try {
        const Fingerprints after = fingerprints(other);
        accepted_[name] = value;
        return after;
      } catch (const Error&) {
      }
    }
    return fingerprints(arguments);  // no option of this shape
  }

  const fs::path root_ = fs::temp_directory_path() / ("gpuhpc-reruns-" + std::to_string(getpid()));
  LabelInputs inputs_;
  std::map<std::string, std::string> accepted_;  // by option
};

const std::map<std::string, Arguments> kShapes = {
    {"embedding", {"train-embedding", "--train.validation=.1", "--embedding.train=/"}},
    {"mixed", {"train-embedding", "--dataset.NAME.train=/"}},
    {"pretrain", {"pretrain"}},
    {"vocabulary", {"pretrain", "--pretrain.vocabulary=700", "--pretrain.short-length=32"}},
    {"mining", {"mine", "--embedding.train=/"}},
    {"adapted", {"--pipeline.adapt=mlm"}},
    {"both", {"--pipeline.adapt=both"}},
    {"seq2seq", {"train-seq2seq"}},
    {"sampled", {"train-seq2seq", "--generate.beams=1", "--generate.sample=true"}},
    {"teleclass", {}},
    {"cores", {"--teleclass.targets=cores"}},
    {"labelled", {"--input.labels=" GPUHPC_FIXTURES "/reruns.tsv"}},  // any file
    {"published", {"--teleclass.refinement=paper", "--teleclass.head=bilinear"}},
    {"taxoclass", {"--pipeline.method=taxoclass"}},
    {"pair", {"--pipeline.method=taxoclass", "--taxoclass.similarity=pair"}},
    {"nli", {"--pipeline.method=taxoclass", "--taxoclass.similarity=nli"}},
};
// They say which stages there are, and what the others are.
const std::set<std::string> kNotChanged = {"pipeline.method", "pipeline.preset",
                                           "teleclass.refinement", "taxoclass.similarity"};

// "option<TAB>teleclass: stages; published: stages; ..." of all that rerun; shapes where none does
// are left out.
std::map<std::string, std::string> read_table(const fs::path& path) {
  std::map<std::string, std::string> table;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);)
    if (const std::size_t tab = line.find('\t'); tab != line.npos)
      table[line.substr(0, tab)] = line.substr(tab + 1);
  return table;
}

TEST_F(Reruns, EveryOptionRerunsTheStagesThatReadIt) {
  Options options;
  config::OptionSet set;
  declare_options(set, options);
  std::map<std::string, Fingerprints> unchanged;
  for (const auto& [shape, arguments] : kShapes) unchanged[shape] = fingerprints(arguments);
  std::map<std::string, std::string> found;
  for (const std::string& name : set.names()) {
    if (kNotChanged.contains(name)) continue;
    std::string& row = found[name];
    for (const auto& [shape, arguments] : kShapes) {
      const Fingerprints after = changed(arguments, name);
      std::string stages;
      for (const auto& [stage, fingerprint] : unchanged.at(shape))
        if (!after.contains(stage) || after.at(stage) != fingerprint) stages += " " + stage;
      if (!stages.empty()) row += (row.empty() ? "" : "; ") + shape + ":" + stages;
    }
  }
  EXPECT_EQ(found, read_table(fs::path(GPUHPC_FIXTURES) / "reruns.tsv"));
  if (HasFailure())
    for (const auto& [name, row] : found) printf("%s\t%s\n", name.c_str(), row.c_str());
}

TEST_F(Reruns, AnotherTextOfTheSameSizeRerunsWhatReadsIt) {
  const Fingerprints before = fingerprints({});
  inputs_.test.scan.content = "7654";
  const Fingerprints after = fingerprints({});
  for (const auto& [stage, fingerprint] : before)
    EXPECT_EQ(after.at(stage) != fingerprint, stage == "inference" || stage == "test-encoding")
        << stage;
}

}  // namespace
}  // namespace gpuhpc
