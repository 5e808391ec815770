#include "gpuhpc/data/corpus.hpp"

#include <gmock/gmock.h>
#include <sys/resource.h>
#include <zlib.h>

#include "../io/expect_error.hpp"
#include "../io/scratch_folder.hpp"
#include "gpuhpc/base/random.hpp"
#include "gpuhpc/io/atomic_file.hpp"

namespace gpuhpc {
namespace {
namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class CorpusFile : public ::testing::Test {
 protected:
  Corpus read(const std::string& name, const std::string& content,
              const CorpusOptions& options = {}) const {
    write_unsynced(folder / name, content);
    return read_corpus(folder / name, options);
  }
  std::string refused(const std::string& name, const std::string& content,
                      const CorpusOptions& options = {}) const {
    return error_of(ExitCode::bad_data, [&] { read(name, content, options); });
  }
  const ScratchFolder folder;
};

TEST_F(CorpusFile, TabbedIsSplitAtTheFirstTabOnly) {
  const Corpus corpus = read("corpus.txt", "0\tone\ttwo\r\nb\t\n\n\"q\tlast");
  EXPECT_THAT(corpus.ids, ElementsAre("0", "b", "\"q"));
  EXPECT_THAT(corpus.texts, ElementsAre("one\ttwo", "", "last"));
}

TEST_F(CorpusFile, TabbedErrorsNameFileLineAndCure) {
  const std::string path = (folder / "c.txt").string();
  EXPECT_EQ(refused("c.txt", "0\ta\nb without tab\n"),
            path + ":2: no tab between id and text; write `id<TAB>text` on one line");
  EXPECT_EQ(refused("c.txt", "0\ta\n1\tb\n0\tc\n"),
            path + ":3: the document id `0` was given before; ids must differ");
  EXPECT_EQ(refused("c.txt", ""),
            path + ": there is no document in it; give a file with at least one");
  EXPECT_THAT(refused("c.txt", "\n\n"), HasSubstr("there is no document in it"));
  EXPECT_EQ(refused("c.txt", "\ttext\n"),
            path + ":1: the document id is empty; give every document an id of its own");
  EXPECT_THAT(refused("c.txt", "0\ta\n1\tna\xEFve\n"),
              HasSubstr(path + ":2: byte 5 (0xef) is not UTF-8"));
  EXPECT_THAT(refused("c.txt", "a\001b\ttext\n"), HasSubstr("control character"));
  EXPECT_THAT(refused("c.txt", std::string(5000, 'x') + "\ttext\n"), HasSubstr("5000 bytes long"));
  EXPECT_NO_THROW(read("c.txt", "0\ta\n0\tb\n", {.check_duplicates = false}));
  error_of(ExitCode::io, [&] { read_corpus(folder / "none.txt"); });
}

TEST_F(CorpusFile, GzipAndPlainAreTheSame) {
  std::string text;
  for (int i = 0; i < 5000; ++i)
    text += std::to_string(i) + "\tdocument number " + std::to_string(i) + "\n";
  gzFile file = gzopen((folder / "c.txt.gz").c_str(), "wb");
  gzwrite(file, text.data(), static_cast<unsigned>(text.size()));
  gzclose(file);
  const Corpus packed = read_corpus(folder / "c.txt.gz"), plain = read("c.txt", text);
  EXPECT_EQ(packed.ids, plain.ids);
  EXPECT_EQ(packed.texts, plain.texts);
}

TEST_F(CorpusFile, JsonLines) {
  const Corpus corpus =
      read("c.jsonl",
           "{\"id\": \"a\", \"text\": \"one\\ttwo\\n\\u00e9\"}\n\n{\"text\":\"\", \"id\": 12, "
           "\"more\": [1]}\n");
  EXPECT_THAT(corpus.ids, ElementsAre("a", "12"));
  EXPECT_THAT(corpus.texts, ElementsAre("one\ttwo\né", ""));
  const Corpus named = read("c.txt", "{\"key\": \"a\", \"body\": \"x\"}\n",
                            {.id_field = "key", .text_field = "body"});
  EXPECT_THAT(named.texts, ElementsAre("x"));
  const Corpus numbered = read("c.jsonl", "{\"text\": \"x\"}\n{\"text\": \"y\", \"id\": null}\n",
                               {.ids_optional = true});
  EXPECT_THAT(numbered.ids, ElementsAre("0", "1"));
}

TEST_F(CorpusFile, JsonLineErrors) {
  EXPECT_THAT(refused("c.jsonl", "{\"id\":1,\"text\":\"a\"}\n{\"id\":2,\"text\":\n"),
              HasSubstr("c.jsonl:2: this is not valid JSON"));
  EXPECT_THAT(refused("c.jsonl", "[1]\n"), HasSubstr(":1: this is not a JSON object"));
  EXPECT_THAT(refused("c.jsonl", "{\"id\":1}\n"),
              HasSubstr("no string field `text` among the row's id; name the field that holds the "
                        "text with --input.text-field"));
  EXPECT_THAT(refused("c.jsonl", "{\"id\":1,\"text\":5}\n"), HasSubstr("no string field `text`"));
  EXPECT_THAT(refused("c.jsonl", "{\"text\":\"a\"}\n"),
              HasSubstr("no field `id`; name the field that holds the id with --input.id-field"));
  EXPECT_THAT(refused("c.jsonl", "{\"id\":1.5,\"text\":\"a\"}\n"),
              HasSubstr("neither a string nor a whole number"));
  EXPECT_THAT(refused("c.jsonl", "{\"id\":1e999,\"text\":\"a\"}\n"), HasSubstr("c.jsonl:1"));
  EXPECT_THAT(refused("c.jsonl", "{\"id\":\"\\u0000\",\"text\":\"a\"}\n"),
              HasSubstr("control character"));
  EXPECT_THAT(refused("c.jsonl", std::string(200'000, '[') + "\n"), HasSubstr("not valid JSON"));
}

TEST_F(CorpusFile, CsvWithQuotesAndLineBreaks) {
  const Corpus corpus = read("c.csv",
                             "id,note,text\r\n1,x,\"a, \"\"b\"\"\r\nnext\"\r\n2,,plain "
                             "\"inside\"\n3,\"\",\"\"\n\n4,y,\"one\n\n\"\"\"\n");
  EXPECT_THAT(corpus.ids, ElementsAre("1", "2", "3", "4"));
  EXPECT_THAT(corpus.texts, ElementsAre("a, \"b\"\nnext", "plain \"inside\"", "", "one\n\n\""));
}

TEST_F(CorpusFile, CsvErrors) {
  EXPECT_THAT(refused("c.csv", "key,text\n1,a\n"),
              HasSubstr(":1: no column `id` in the first line, which names: key, text; name the "
                        "column with --input.id-field"));
  EXPECT_THAT(refused("c.csv", "id,body\n1,a\n"), HasSubstr("no column `text`"));
  EXPECT_THAT(
      refused("c.csv", "id,text\n1,a\n2,b,c\n"),
      HasSubstr(
          "c.csv:3: 3 fields where the first line names 2 columns; quote fields that hold commas"));
  EXPECT_THAT(refused("c.csv", "id,text\n1,\"a\nb\n"),
              HasSubstr("c.csv:2: a quote is opened and never closed"));
  EXPECT_THAT(refused("c.csv", "id,text\n1,\"a\" b\n"),
              HasSubstr("c.csv:2: text after a closing quote"));
  EXPECT_THAT(refused("c.csv", "id,text\n"), HasSubstr("there is no document"));
  EXPECT_THAT(refused("c.csv", "id,text\n1,a\n\"1\",b\n"),
              HasSubstr("c.csv:3: the document id `1` was given before"));
}

TEST_F(CorpusFile, TsvHasColumnsWhenItsFirstLineNamesThem) {
  EXPECT_THAT(read("c.tsv", "text\tid\nhello \"you\"\t7\n").ids, ElementsAre("7"));
  EXPECT_THAT(read("c.tsv", "7\thello\n").texts, ElementsAre("hello"));
  EXPECT_THAT(read("c.tsv", "7\thello\tyou\n", {.format = "tabbed"}).texts,
              ElementsAre("hello\tyou"));
  EXPECT_THAT(read("c.txt", "text\tid\nhello\t7\n", {.format = "tsv"}).texts, ElementsAre("hello"));
  EXPECT_THAT(refused("c.tsv", "text\tid\nhello\n"), HasSubstr("c.tsv:2: 1 fields"));
}

// Read as id<TAB>text, its first line would be a document and its other columns text.
TEST_F(CorpusFile, AHeaderOfOtherNamesIsNoDocument) {
  for (const char* header : {"doc\ttopic\ttext", "id\tbody", "\"id\"\t\"text\""})
    EXPECT_THAT(refused("c.tsv", std::string(header) + "\n7\thello\n"),
                HasSubstr("c.tsv:1: the first line does not name the columns `id` and `text`"));
  EXPECT_THAT(refused("c.tsv", "7\thello\n", {.id_field = "doc"}),
              HasSubstr("does not name the columns `doc` and `text`"));
  EXPECT_THAT(refused("c.txt", "id\ttext\n7\thello\n"),
              HasSubstr("c.txt:1: the first line is a header"));
}

TEST_F(CorpusFile, RowsWithoutIdsHaveTheirNumbers) {
  const CorpusOptions optional{.ids_optional = true};
  EXPECT_THAT(read("c.jsonl", "{\"text\": \"x\"}\n\n{\"text\": \"y\"}\n", optional).ids,
              ElementsAre("0", "2"));
  EXPECT_THAT(read("c.txt", "x\n\n\ny\n", {.format = "lines"}).ids, ElementsAre("0", "3"));
  EXPECT_THAT(read("c.csv", "text\n\"x\n\"\n\ny\n", optional).ids, ElementsAre("0", "1"));
  EXPECT_THAT(refused("c.csv", "key,text\n7,x\n", {.id_field = "kye", .ids_optional = true}),
              HasSubstr("no column `kye`"));
  EXPECT_THAT(refused("c.jsonl", "{\"key\": 7, \"text\": \"x\"}\n",
                      {.id_field = "kye", .ids_optional = true}),
              HasSubstr("no field `kye`"));
}

TEST_F(CorpusFile, FormatCanBeForced) {
  EXPECT_THAT(read("c.csv", "1\ta,b\n", {.format = "tabbed"}).texts, ElementsAre("a,b"));
  EXPECT_THAT(read("c.txt", "{1}\ta\n", {.format = "tabbed"}).ids, ElementsAre("{1}"));
  error_of(ExitCode::usage, [&] { read("c.txt", "1\ta\n", {.format = "xml"}); });
}

TEST_F(CorpusFile, HugeIdsAndManyDocumentsKeepTheirOrder) {
  std::string text;
  for (int i = 0; i < 100'000; ++i) text += "doc-" + std::to_string(i) + "\tx\n";
  const Corpus corpus = read("c.txt", text);
  ASSERT_EQ(corpus.size(), 100'000);
  EXPECT_EQ(corpus.ids[99'999], "doc-99999");
  EXPECT_THAT(refused("c.txt", text + "doc-777\tx\n"),
              HasSubstr(":100001: the document id `doc-777`"));
}

TEST_F(CorpusFile, StreamsInBoundedMemory) {
  {
    AtomicFile file(folder / "big.txt");
    const std::string text(1000, 'w');
    for (int i = 0; i < 60'000; ++i) file.write(std::to_string(i) + "\t" + text + "\n");
    file.commit();
  }
  CorpusReader reader(folder / "big.txt");
  Document document;
  rusage before{}, after{};
  ::getrusage(RUSAGE_SELF, &before);
  while (reader.next(document)) EXPECT_EQ(document.text.size(), 1000U);
  ::getrusage(RUSAGE_SELF, &after);
  EXPECT_EQ(reader.count(), 60'000);
  EXPECT_LT(after.ru_maxrss - before.ru_maxrss, 20'000) << "KiB; the file has 60,000";
}

TEST_F(CorpusFile, DamagedFilesNeverCrash) {
  const std::vector<std::pair<std::string, std::string>> files{
      {"c.csv", "id,text\n1,\"a, \"\"b\"\" c\nd\"\n2,e\n"},
      {"c.jsonl", "{\"id\":\"a\",\"text\":\"b\\u00e9\"}\n{\"id\":1,\"text\":\"\"}\n"},
      {"c.txt", "0\tna\xC3\xAFve\n1\tb\n"}};
  RandomStream random(3, 1);
  for (const auto& [name, whole] : files) {
    int sound = 0, refused_count = 0;
    for (int round = 0; round < 2000; ++round) {
      std::string bent = round < static_cast<int>(whole.size())
                             ? whole.substr(0, static_cast<std::size_t>(round))
                             : whole;
      if (bent.size() == whole.size())
        bent[random.below(bent.size())] = static_cast<char>(random.below(256));
      try {
        const Corpus corpus = read(name, bent);
        EXPECT_GT(corpus.size(), 0);
        ++sound;
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), ExitCode::bad_data);
        ++refused_count;
      }
    }
    EXPECT_GT(sound, 0) << name;
    EXPECT_GT(refused_count, 0) << name;
  }
}

}  // namespace
}  // namespace gpuhpc
