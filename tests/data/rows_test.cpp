// Rows of several columns: what is read, which rows are bad, and that every later pass agrees.
#include <gmock/gmock.h>

#include "../io/expect_error.hpp"
#include "../io/scratch_folder.hpp"
#include "gpuhpc/data/corpus.hpp"
#include "gpuhpc/data/token_shards.hpp"
#include "word_tokenizer.hpp"

namespace gpuhpc {
namespace {
using ::testing::ElementsAre;
using ::testing::HasSubstr;

using Fields = std::vector<std::vector<std::string>>;

class Rows : public ::testing::Test {
 protected:
  static CorpusOptions options(bool skip = false) {
    CorpusOptions options;
    options.rows = {.texts = {"b", "a"}, .values = {"n"}, .skip = skip, .section = "--job"};
    options.rows->fault = [](std::span<const std::string> values) {
      return values[0] == "13" ? "13 is unlucky" : "";
    };
    return options;
  }
  CorpusScan scan(const std::string& name, const std::string& content,
                  const CorpusOptions& chosen) {
    write_unsynced(folder / name, content);
    scanned.clear();
    return scan_corpus(folder / name, chosen, *comm,
                       [&](const Document& row) { scanned.push_back(row.fields); });
  }
  std::string refused(const std::string& name, const std::string& content) {
    return error_of(ExitCode::bad_data, [&] { scan(name, content, options()); });
  }
  // Each block read alone, as a later pass of some rank does.
  static Fields fields_of(const CorpusScan& corpus) {
    Fields all;
    for (std::int64_t block = 0; block < corpus.blocks(); ++block) {
      std::vector<Document> rows;
      CorpusBlocks(corpus).read(block, rows);
      for (const Document& row : rows) all.push_back(row.fields);
    }
    return all;
  }
  const ScratchFolder folder;
  const std::unique_ptr<Communicator> comm = make_single_communicator();
  Fields scanned;
};

TEST_F(Rows, AreTheSameInEveryFormat) {
  const Fields expected{{"two", "one", "0.5"}, {"p, q", "x", "[1,2.5]"}};
  for (const auto& [name, content] : {
           std::pair{"r.jsonl",
                     "{\"a\": \"one\", \"b\": \"two\", \"n\": 0.5, \"id\": {}}\n\n"
                     "{\"n\": [1, 2.5], \"b\": \"p, q\", \"a\": \"x\"}"},
           std::pair{"r.csv", "a,n,b,id\r\none,0.5,two,\r\nx,\"[1,2.5]\",\"p, q\",\r\n"},
           std::pair{"r.tsv", "n\ta\tb\n0.5\tone\ttwo\n[1,2.5]\tx\tp, q\n"},
       }) {
    const CorpusScan corpus = scan(name, content, options());
    EXPECT_EQ(scanned, expected) << name;
    EXPECT_EQ(fields_of(corpus), expected) << name;
  }
  CorpusOptions prompted = options();
  prompted.rows->prompts = {"query: ", ""};
  scan("p.tsv", "a\tb\tn\nx\ty\t1\n", prompted);
  EXPECT_EQ(scanned, Fields({{"query: y", "x", "1"}}));
}

TEST_F(Rows, ABadOneIsNamedWithItsLineAndTheWayOut) {
  const std::string path = (folder / "r.jsonl").string(),
                    good = "{\"a\":\"x\",\"b\":\"y\",\"n\":1}\n",
                    way_out = "; or leave bad rows out with --job.bad-rows skip";
  EXPECT_EQ(refused("r.jsonl", good + "{\"a\":\"x\",\"n\":1}\n"),
            path +
                ":2: no string field `b` among the row's a, n; name the field that holds the "
                "text with --job.columns" +
                way_out);
  EXPECT_EQ(
      refused("r.jsonl", good + "{\"a\":\"x\",\"b\":\"y\",\"n\":null}\n"),
      path + ":2: no field `n` among the row's a, b, n; name the field with --job.score" + way_out);
  EXPECT_EQ(refused("r.jsonl", good + "{\"a\":\" \\t\",\"b\":\"y\",\"n\":1}\n"),
            path + ":2: the text in column `a` is empty; give every row its texts" + way_out);
  EXPECT_EQ(refused("r.jsonl", good + good + "{\"a\":\"x\",\"b\":\"y\",\"n\":13}\n"),
            path + ":3: 13 is unlucky" + way_out);
  EXPECT_THAT(refused("r.jsonl", good + "{\"a\": oh}\n"), HasSubstr(":2: this is not valid JSON"));
  EXPECT_THAT(refused("r.csv", "a,b,n\n1,2,3\n1,2\n"),
              HasSubstr("r.csv:3: 2 fields where the first line names 3 columns"));
  for (const char* name : {"r.csv", "r.tsv"})
    EXPECT_THAT(refused(name, std::string("a,n\n1,2\n")), HasSubstr("no column `b` in the first"));
  EXPECT_THAT(refused("r.txt", "a\tb\tn\n"), HasSubstr("JSONL, CSV and TSV alone"));
}

TEST_F(Rows, BadOnesAreLeftOutAndCountedAndEveryPassAgrees) {
  std::string content;
  Fields expected;
  for (int i = 0; i < 3000; ++i) {
    const std::string n = std::to_string(i);
    content += "{\"a\": \"a" + n + "\", \"b\": \"b" + n + "\", \"n\": " + n + "}\n";
    expected.push_back({"b" + n, "a" + n, n});
    if (i % 1024 >= 1022) content += "{\"a\": \"\", \"b\": \"b\", \"n\": 1}\n{}\n\n";
  }
  expected.erase(expected.begin() + 13);
  const CorpusScan corpus = scan("r.jsonl", content, options(true));
  EXPECT_EQ(corpus.blocks(), 3);
  EXPECT_EQ(scanned, expected);
  EXPECT_EQ(fields_of(corpus), expected);
  EXPECT_EQ(corpus.bad_rows.count, 1 + 2 * 4);
  ASSERT_EQ(corpus.bad_rows.first.size(), 5u);
  EXPECT_EQ(corpus.bad_rows.first[0], (folder / "r.jsonl").string() + ":14: 13 is unlucky");
  EXPECT_THAT(corpus.bad_rows.first[1], HasSubstr("r.jsonl:1024: the text in column `a` is empty"));
  CorpusOptions few = options(true);
  few.rows->most = 14;
  EXPECT_EQ(scan("r.jsonl", content, few).documents(), 14);
  EXPECT_EQ(scanned.back()[2], "14");
  EXPECT_THAT(error_of(ExitCode::bad_data, [&] { scan("none.jsonl", "{}\n", options(true)); }),
              HasSubstr("there is no sound row in it; the first: "));
}

TEST_F(Rows, BecomeShardsOfEachColumn) {
  const CorpusScan corpus =
      scan("r.tsv", "a\tb\tn\nx\ty z\t1\n\tleft out\t2\nu v w\tt\t3\n", options(true));
  const std::vector<std::filesystem::path> folders{folder / "0", folder / "1"};
  prepare_shards(corpus, WordTokenizer(), folders, {}, Texts::keep, *comm, 1);
  const TokenDataset b(folders[0]), a(folders[1]);
  ASSERT_EQ(a.size(), 2);
  ASSERT_EQ(b.size(), 2);
  EXPECT_EQ(b.text(0), "y z");
  EXPECT_EQ(a.text(1), "u v w");
  EXPECT_EQ(b.length(0), 2);
  EXPECT_EQ(a.length(1), 3);
  EXPECT_EQ(a.length(0), 1);
}

}  // namespace
}  // namespace gpuhpc
