// What the backend `pair` learns from, on a corpus of four documents.
#include "gpuhpc/pipelines/label/taxoclass/backends/pair_examples.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <spdlog/logger.h>

#include <map>

#include "../io/scratch_folder.hpp"
#include "gpuhpc/data/token_shards.hpp"
#include "gpuhpc/io/atomic_file.hpp"
#include "gpuhpc/io/matrix_file.hpp"

namespace gpuhpc {
namespace {

using ::testing::IsEmpty;

// Classes: a over b and c; d. Paths: a b, a c, d.
struct Corpus {
  Corpus() {
    for (const char* name : {"encoding", "posterior"}) create_folder(folder / name);
    write_text_file(folder / "corpus.txt",
                    "0\tFast editor. It edits files\n1\tone two\n2\tPing tool! It pings\n3\tbody "
                    "without a sentence that ends within the first dozen of words or so\n");
    write_text_file(folder / "encoding/class_texts.txt", "a\tabout a\nb\ta > b\nd\tabout d\n");
    Matrix first(4, 3), smoothed(4, 3);
    first.values = {.8f, .1f, .1f, .1f, .1f, .8f, .2f, .6f, .2f, .3f, .3f, .4f};
    smoothed.values = {.7f, .2f, .1f, .8f, .1f, .1f,
                       .2f, .7f, .1f, .3f, .3f, .4f};  // document 1: of another mind
    write_matrix(folder / "posterior/first_posterior.h5", std::as_const(first).view());
    write_matrix(folder / "posterior/posterior.h5", std::as_const(smoothed).view());
    prepare_shards(scan_corpus(folder / "corpus.txt", {}, *comm), *tokenizer,
                   folder / "encoding/tokens", {}, Texts::keep, *comm, 1);
    const CheckpointTask task;
    const StageContext context{*comm, log, {}, "", task, [] { return false; }, "", "pair-model"};
    const PairSources sources{.encoding = {"encoding", folder / "encoding"},
                              .posterior = {"posterior", folder / "posterior"},
                              .statements = {},
                              .options = {.examples = 40},
                              .expected_leaves = {1},
                              .seed = {}};
    pairs = make_pair_examples(context, sources, taxonomy, *tokenizer);
  }
  // Target of every pair whose texts read like this.
  std::vector<float> targets(const std::string& premise, const std::string& hypothesis) const {
    std::vector<float> found;
    for (const auto& [pair, target] : pairs.examples)
      if (pairs.premises[static_cast<std::size_t>(pair.premise)] == ids_of(*tokenizer, premise) &&
          pairs.hypotheses[static_cast<std::size_t>(pair.hypothesis)] ==
              ids_of(*tokenizer, hypothesis))
        found.push_back(target);
    return found;
  }
  std::vector<float> of_class(const std::string& premise, const std::string& name) const {
    return targets(premise, "this example is " + name + ".");
  }

  const ScratchFolder folder;
  const std::unique_ptr<Communicator> comm = make_single_communicator();
  const Log log = std::make_shared<spdlog::logger>("test");
  const std::unique_ptr<Tokenizer> tokenizer =
      load_tokenizer(std::filesystem::path(GPUHPC_MODELS) / "all-MiniLM-L6-v2");
  const Taxonomy taxonomy{{"a", "b", "c", "d"}, {{0, 1}, {0, 2}}};
  PairExamples pairs;
};

TEST(PairExamples, DocumentsEntailClassesAsTheirPosteriorSaysWhereItAgrees) {
  const Corpus corpus;
  const std::string editor = "fast editor. it edits files";
  for (const auto& [name, wanted] :
       std::map<std::string, float>{{"a", .9f}, {"b", .7f}, {"c", .2f}, {"d", .1f}})
    EXPECT_THAT(corpus.of_class(editor, name),
                ::testing::Pointwise(::testing::FloatNear(1e-6f), {wanted}))
        << name;
  EXPECT_THAT(corpus.of_class("one two", "c"),
              ::testing::Pointwise(::testing::FloatNear(1e-6f), {.1f}));
  for (const char* name : {"a", "b", "d"})
    EXPECT_THAT(corpus.of_class("one two", name), IsEmpty()) << name;
}

TEST(PairExamples, ABodyEntailsItsOwnTitle) {
  const Corpus corpus;
  EXPECT_THAT(corpus.of_class(" it edits files", "fast editor"), ::testing::ElementsAre(1.f));
  EXPECT_THAT(corpus.of_class(" it pings", "ping tool"), ::testing::ElementsAre(1.f));
  EXPECT_THAT(corpus.of_class(" or so",
                              "body without a sentence that ends within the first dozen of words"),
              ::testing::ElementsAre(1.f));
  std::int64_t strangers = 0;
  for (const char* title : {"one two", "ping tool",
                            "body without a sentence that ends within the first dozen of words"})
    for (const float target : corpus.of_class(" it edits files", title))
      strangers += target == 0 ? 1 : 100;
  EXPECT_EQ(strangers, 1);  // one title of another document
}

TEST(PairExamples, ClassTextsEntailTheirClassAndNoStranger) {
  const Corpus corpus;
  EXPECT_THAT(corpus.of_class("about a", "a"), ::testing::ElementsAre(1.f));
  EXPECT_THAT(corpus.of_class("a > b", "b"), ::testing::ElementsAre(1.f));
  EXPECT_THAT(corpus.of_class("a > b", "a"), IsEmpty());  // neither: it lies above
  for (const char* name : {"b", "c"})
    EXPECT_THAT(corpus.of_class("about a", name), IsEmpty()) << name;
}

TEST(PairExamples, AnItemIsItsPairWithSegments) {
  const Corpus corpus;
  const PairTask task(corpus.pairs, corpus.tokenizer->special().pair, 12, {}, {});
  const PackedIds packed = task.pack(std::vector<std::int64_t>{0, 1});
  EXPECT_EQ(packed.size(), 2);
  EXPECT_EQ(packed.offsets[1], task.cost(0));
  EXPECT_LE(task.cost(0), 12);
  EXPECT_EQ(packed.token_ids.front(), corpus.tokenizer->special().single.before.front());
  EXPECT_EQ(packed.segments.front(), 0);
  EXPECT_EQ(packed.segments.back(), 1);
}

}  // namespace
}  // namespace gpuhpc
