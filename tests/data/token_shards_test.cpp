#include "gpuhpc/data/token_shards.hpp"

#include <gmock/gmock.h>

#include "../io/expect_error.hpp"
#include "../io/scratch_folder.hpp"
#include "gpuhpc/base/random.hpp"
#include "gpuhpc/io/atomic_file.hpp"
#include "gpuhpc/io/checksum.hpp"
#include "gpuhpc/io/json.hpp"
#include "word_tokenizer.hpp"

namespace gpuhpc {
namespace {
namespace fs = std::filesystem;
using ::testing::HasSubstr;

class Shards : public ::testing::Test {
 protected:
  Shards() : comm(make_single_communicator()) {
    std::string text;
    for (int i = 0; i < documents; ++i) {
      text += "doc " + std::to_string(i) + "\t";
      for (int w = 0; w < i % 30; ++w) text += "word" + std::to_string(i * w % 91) + " ";
      text += "\n";
    }
    write_unsynced(corpus, text);
  }
  ShardSummary prepare(const ShardOptions& options = {.shard_documents = 1024},
                       Texts texts = Texts::keep) const {
    return prepare_shards(scan_corpus(corpus, {}, *comm), tokenizer, shards, options, texts, *comm,
                          2);
  }
  std::string refused() const {
    return error_of(ExitCode::bad_data, [&] { const TokenDataset dataset(shards); });
  }
  static constexpr int documents = 2500;  // three blocks of at most 1,024
  const ScratchFolder folder;
  const fs::path corpus = folder / "corpus.txt", shards = folder / "shards";
  const WordTokenizer tokenizer;
  const std::unique_ptr<Communicator> comm;
};

TEST_F(Shards, EveryDocumentComesBack) {
  const ShardSummary summary = prepare();
  const TokenDataset dataset(shards);
  EXPECT_EQ(summary.documents, documents);
  EXPECT_EQ(summary.shards, 3);
  EXPECT_EQ(summary.longest, 29);
  EXPECT_EQ(dataset.size(), documents);
  EXPECT_EQ(dataset.token_count(), summary.tokens);
  EXPECT_EQ(dataset.vocabulary_size(), 1000);
  const Corpus texts = read_corpus(corpus);
  for (std::int64_t i = 0; i < dataset.size(); ++i) {
    std::vector<std::int32_t> expected;
    tokenizer.encode(texts.texts[static_cast<std::size_t>(i)], expected);
    const auto tokens = dataset.tokens(i);
    ASSERT_EQ(std::vector<std::int32_t>(tokens.begin(), tokens.end()), expected) << i;
    EXPECT_EQ(dataset.id(i), texts.ids[static_cast<std::size_t>(i)]);
    EXPECT_EQ(dataset.text(i), texts.texts[static_cast<std::size_t>(i)]);
  }
  EXPECT_NO_THROW(dataset.check_tokenizer(tokenizer));
  EXPECT_THAT(error_of(ExitCode::bad_data, [&] { dataset.check_tokenizer(WordTokenizer(77)); }),
              HasSubstr("made by another tokenizer"));
}

TEST_F(Shards, LongTextsEndBlocksAndShardsEarly) {
  std::string text;
  for (int i = 0; i < 12; ++i)
    text += std::string(1, static_cast<char>('a' + i)) + "\t" + std::string(1 << 20, 'x') + "\n";
  write_unsynced(corpus, text);
  EXPECT_EQ(prepare({.shard_megabytes = 5}).shards, 2);  // blocks of 4 MiB: 8 and 4 documents
  const TokenDataset dataset(shards);
  EXPECT_EQ(dataset.size(), 12);
  for (std::int64_t i = 0; i < 12; ++i)
    EXPECT_EQ(dataset.id(i), std::string(1, static_cast<char>('a' + i)));
}

TEST_F(Shards, TextsAreKeptOnRequestOnly) {
  prepare({}, Texts::leave);
  const TokenDataset dataset(shards);
  EXPECT_EQ(dataset.size(), documents);
  error_of(ExitCode::internal, [&] { dataset.text(0); });
}

TEST_F(Shards, PreparingAgainGivesTheSameFingerprintAndLeavesNothingOld) {
  prepare({.shard_documents = 1});
  EXPECT_EQ(std::distance(fs::directory_iterator(shards), fs::directory_iterator()), 4);
  prepare({});
  const std::string first = TokenDataset(shards).fingerprint();
  prepare({});
  EXPECT_EQ(TokenDataset(shards).fingerprint(), first);
  EXPECT_EQ(std::distance(fs::directory_iterator(shards), fs::directory_iterator()), 2);
}

TEST_F(Shards, BadTextAndAMissingCorpusKeepTheOldShards) {
  prepare();
  write_unsynced(corpus, read_text_file(corpus) + "no tab\n");
  EXPECT_THAT(error_of(ExitCode::bad_data, [&] { prepare(); }),
              HasSubstr("corpus.txt:2501: no tab"));
  fs::remove(corpus);
  error_of(ExitCode::io, [&] { prepare(); });
  EXPECT_EQ(TokenDataset(shards).size(), documents);
}

TEST_F(Shards, ATokenOutsideTheVocabularyLeavesNoShards) {
  prepare();
  class Wrong final : public WordTokenizer {
   public:
    std::int64_t vocabulary_size() const override { return 5; }
  };
  error_of(ExitCode::internal, [&] {
    prepare_shards(scan_corpus(corpus, {}, *comm), Wrong(), shards, {}, Texts::leave, *comm, 1);
  });
  EXPECT_TRUE(fs::is_empty(shards));
  EXPECT_THAT(refused(), HasSubstr("run `gpuhpc prepare`"));
}

TEST_F(Shards, CutsAndFlipsOfAShardAreDetected) {
  prepare();
  const fs::path shard = shards / "shard-00001.h5";
  const std::string whole = read_text_file(shard);
  RandomStream random(4, 1);
  for (int round = 0; round < 300; ++round) {
    write_unsynced(shard, whole.substr(0, random.below(whole.size())));
    EXPECT_NE(refused(), "");
    std::string bent = whole;
    const std::size_t at = random.below(whole.size());
    bent[at] ^= static_cast<char>(1 << random.below(8));
    write_unsynced(shard, bent);
    EXPECT_NE(refused(), "") << at;
  }
  write_unsynced(shard, whole);
  EXPECT_NO_THROW(TokenDataset dataset(shards));
  fs::remove(shard);
  EXPECT_THAT(refused(), HasSubstr("shard-00001.h5: the shard is missing"));
}

TEST_F(Shards, ASwappedShardIsDetected) {
  prepare();
  fs::rename(shards / "shard-00000.h5", folder / "keep");
  fs::copy_file(shards / "shard-00001.h5", shards / "shard-00000.h5");
  EXPECT_THAT(refused(), HasSubstr("shard-00000.h5: the shard is not the one of the manifest"));
}

TEST_F(Shards, AnAlteredManifestIsDetected) {
  prepare();
  const fs::path manifest = shards / "manifest.json";
  const std::string whole = read_text_file(manifest);
  for (std::size_t cut = 0; cut + 2 < whole.size(); cut += 7) {
    write_unsynced(manifest, whole.substr(0, cut));
    EXPECT_NE(refused(), "") << cut;
  }
  for (std::size_t at = 0; at < whole.size(); ++at) {
    std::string bent = whole;
    bent[at] = static_cast<char>(bent[at] ^ 1);
    if (bent[at] == ' ' || bent[at] == '\n' || whole[at] == ' ' || whole[at] == '\n')
      continue;  // blanks carry nothing
    write_unsynced(manifest, bent);
    EXPECT_NE(refused(), "") << at << bent;
  }
  Json other = Json::parse(whole);
  other["tokenizer"] = "of another vocabulary";
  write_json(manifest, other);
  EXPECT_THAT(refused(), HasSubstr("manifest.json: the manifest was altered (checksum)"));
  write_unsynced(manifest, "[1]");
  EXPECT_THAT(refused(), HasSubstr("this is not a token shards manifest"));
}

TEST_F(Shards, ProgressCountsEveryDocument) {
  std::int64_t seen = 0;
  prepare_shards(scan_corpus(corpus, {}, *comm), tokenizer, shards, {}, Texts::leave, *comm, 1,
                 [&](std::int64_t more) { seen += more; });
  EXPECT_EQ(seen, documents);
}

TEST(ShardsOfAModel, RealTokenizerMeetsItsVocabulary) {
  const ScratchFolder folder;
  write_unsynced(folder / "c.txt", "a\tHello world\nb\tna\xC3\xAFve caf\xC3\xA9\n");
  const auto tokenizer = load_tokenizer(fs::path(GPUHPC_MODELS) / "all-MiniLM-L6-v2");
  const auto comm = make_single_communicator();
  prepare_shards(scan_corpus(folder / "c.txt", {}, *comm), *tokenizer, folder / "shards", {},
                 Texts::leave, *comm, 1);
  const TokenDataset dataset(folder / "shards");
  EXPECT_EQ(dataset.vocabulary_size(), 30522);
  EXPECT_THAT(dataset.tokens(0), ::testing::ElementsAre(7592, 2088));
  EXPECT_THAT(dataset.tokens(1), ::testing::ElementsAre(15743, 7668));
}

}  // namespace
}  // namespace gpuhpc
