#include "gpuhpc/text/phrases.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "gpuhpc/base/error.hpp"

namespace gpuhpc {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

std::vector<std::string> words_of(std::string_view text) {
  PhraseWords words;
  words.split(text);
  std::vector<std::string> result;
  for (std::size_t i = 0; i < words.size(); ++i)
    result.push_back((words.after_break(i) ? "|" : "") + std::string(words[i]));
  return result;
}

TEST(Words, SplitLowerCasedWithBreaks) {
  EXPECT_THAT(words_of("The C++ and C# e-mail, via node.js/X11. Don't (stop)!"),
              ElementsAre("|the", "c++", "and", "c#", "e-mail", "|via", "node.js", "x11", "|don't",
                          "|stop"));
  EXPECT_THAT(words_of("Größe naïve\u2019s snake_case\xFF"
                       "end - gap"),
              ElementsAre("|größe", "naïve's", "snake", "case", "end", "gap"));
  EXPECT_THAT(words_of(" ... "), IsEmpty());
  EXPECT_THAT(words_of("a-"), ElementsAre("|a"));
}

std::vector<std::string> texts_of(const std::vector<Phrase>& phrases) {
  std::vector<std::string> result;
  for (const auto& phrase : phrases) result.push_back(phrase.text);
  return result;
}

// 8 documents; "window manager" is in 6 of them, 7 times.
const std::vector<std::string> corpus = {
    "A window manager for the desktop. A window manager.",
    "This window manager draws borders",
    "Tiling window manager of the 7 dwarfs",
    "The window manager: state of the art",
    "window manager and panel",
    "Another Window Manager, state of the art",
    "state of the art compiler",
    "window for desktop tools, manager of state",
};

PhraseOptions small_options() {
  PhraseOptions options;
  options.least_documents = 3;
  options.least_pmi = 0.5;
  return options;
}

TEST(Phrases, FrequencyAndPmi) {
  const auto phrases = mine_phrases(corpus, small_options());
  EXPECT_THAT(texts_of(phrases), ElementsAre("manager", "window", "window manager", "state", "art",
                                             "state of the art"));
  const auto& pair = phrases[2];
  EXPECT_EQ(pair.count, 7);
  EXPECT_EQ(pair.documents, 6);
  EXPECT_EQ(pair.words, 2);
  // 51 words in all; `window` and `manager` occur 8 times each.
  EXPECT_NEAR(pair.pmi, std::log2(7.0 * 51 / (8.0 * 8)), 1e-12);
  EXPECT_EQ(phrases[5].words, 4);
  EXPECT_EQ(phrases[5].count, 3);
}

TEST(Phrases, NestedPhrasesGiveWay) {
  std::vector<std::string> texts(6, "a central processing unit here");
  PhraseOptions options = small_options();
  EXPECT_THAT(texts_of(mine_phrases(texts, options)),
              ElementsAre("central", "central processing unit", "processing", "unit"));
  texts.insert(texts.end(), 6, "the processing unit alone");
  EXPECT_THAT(texts_of(mine_phrases(texts, options)), testing::Contains("processing unit"));
}

TEST(Phrases, LimitsHold) {
  PhraseOptions options = small_options();
  options.longest = 1;
  EXPECT_THAT(texts_of(mine_phrases(corpus, options)),
              ElementsAre("manager", "window", "state", "art"));
  options.most = 2;
  EXPECT_THAT(texts_of(mine_phrases(corpus, options)), ElementsAre("manager", "window"));
  options.most = 0;
  options.least_documents = 100;
  EXPECT_THAT(mine_phrases(corpus, options), IsEmpty());
  EXPECT_THAT(mine_phrases({}, options), IsEmpty());
}

// Documents dealt to three miners in another order: the same phrases, bit for bit.
TEST(Phrases, PartialCountsMerge) {
  std::vector<PhraseMiner> miners;
  for (int i = 0; i < 3; ++i) miners.emplace_back(small_options());
  while (!miners[0].done()) {
    for (std::size_t i = corpus.size(); i-- > 0;) miners[i % 3].count(corpus[i]);
    std::vector<std::string> partials;
    for (const auto& miner : miners) partials.push_back(miner.partial());
    for (auto& miner : miners) miner.finish_level(partials);
  }
  const auto together = mine_phrases(corpus, small_options());
  for (const auto& miner : miners) {
    const auto phrases = miner.phrases();
    ASSERT_EQ(texts_of(phrases), texts_of(together));
    for (std::size_t i = 0; i < phrases.size(); ++i) {
      EXPECT_EQ(phrases[i].pmi, together[i].pmi);
      EXPECT_EQ(phrases[i].count, together[i].count);
      EXPECT_EQ(phrases[i].documents, together[i].documents);
    }
  }
}

TEST(Phrases, CutPartialIsOurBug) {
  PhraseMiner miner(small_options());
  miner.count("some text");
  std::string bytes = miner.partial();
  bytes.pop_back();
  EXPECT_THROW(miner.finish_level(std::span(&bytes, 1)), Error);
}

TEST(Phrases, StopWords) {
  EXPECT_TRUE(is_phrase_stop_word("the"));
  EXPECT_TRUE(is_phrase_stop_word("a"));
  EXPECT_TRUE(is_phrase_stop_word("yourself"));
  EXPECT_FALSE(is_phrase_stop_word("window"));
  EXPECT_FALSE(is_phrase_stop_word(""));
}

TEST(Phrases, FinderFindsEveryOccurrence) {
  const std::vector<std::string> phrases = {
      "window manager", "manager", "Client/Server", "!", "window manager", "state of the art"};
  PhraseFinder finder(phrases);
  std::vector<std::int32_t> ids;
  EXPECT_EQ(
      finder.find("A Window-free window manager; client server. State-of-the-art manager", ids), 8);
  EXPECT_THAT(ids, ElementsAre(0, 1, 2, 1));
  ids.clear();
  EXPECT_EQ(finder.find("window, manager of the state of the art", ids), 8);
  EXPECT_THAT(ids, ElementsAre(1, 5));
  ids.clear();
  EXPECT_EQ(finder.find("", ids), 0);
  EXPECT_THAT(ids, IsEmpty());
}

TEST(Phrases, OptionsAreDeclared) {
  config::OptionSet set;
  PhraseOptions options;
  declare(set.section("phrases", "phrase mining"), options);
  set.parse("", {"--phrases.longest", "3", "--phrases.least-pmi", "2.5"});
  EXPECT_EQ(options.longest, 3);
  EXPECT_EQ(options.least_pmi, 2.5);
}

}  // namespace
}  // namespace gpuhpc
