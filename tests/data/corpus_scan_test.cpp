// One pass finds every fault and remembers where the blocks are; each block is then parsed alone.
#include <gmock/gmock.h>
#include <sys/stat.h>
#include <zlib.h>

#include "../io/expect_error.hpp"
#include "../io/scratch_folder.hpp"
#include "gpuhpc/data/corpus.hpp"

namespace gpuhpc {
namespace {
namespace fs = std::filesystem;
using ::testing::HasSubstr;

class Scan : public ::testing::Test {
 protected:
  CorpusScan scan(const std::string& name, const CorpusOptions& options = {}) const {
    return scan_corpus(folder / name, options, *comm);
  }
  CorpusScan scan(const std::string& name, const std::string& content,
                  const CorpusOptions& options = {}) const {
    write_unsynced(folder / name, content);
    return scan(name, options);
  }
  std::string refused(const std::string& name, const std::string& content) const {
    return error_of(ExitCode::bad_data, [&] { scan(name, content); });
  }
  // Every block, read alone in this order, equals the rows of a whole reading.
  void expect_blocks(const CorpusScan& corpus, const std::vector<std::int64_t>& order) const {
    const Corpus whole = read_corpus(corpus.path, corpus.options);
    ASSERT_EQ(corpus.documents(), whole.size());
    CorpusBlocks blocks(corpus);
    for (const std::int64_t block : order) {
      std::vector<Document> documents;
      blocks.read(block, documents);
      const std::int64_t first = corpus.marks[static_cast<std::size_t>(block)].document;
      ASSERT_EQ(std::ssize(documents),
                corpus.marks[static_cast<std::size_t>(block) + 1].document - first);
      for (std::size_t i = 0; i < documents.size(); ++i) {
        ASSERT_EQ(documents[i].id, whole.ids[static_cast<std::size_t>(first) + i]);
        ASSERT_EQ(documents[i].text, whole.texts[static_cast<std::size_t>(first) + i]);
      }
    }
  }
  // 3,000 rows with blank lines, both line ends and no end behind the last.
  static std::string rows(const std::string& kind) {
    std::string text = kind == "csv" ? "\xEF\xBB\xBFnote,text,id\r\n" : "";
    for (int i = 0; i < 3000; ++i) {
      const std::string n = std::to_string(i), end = i % 2 == 0 ? "\r\n" : "\n";
      if (kind == "csv") text += "\"a,\n" + n + "\",\"b \"\"" + n + "\"\"\n\nc\"," + n + end;
      if (kind == "jsonl") text += "{\"id\": " + n + ", \"text\": \"\\u00e9\\n" + n + "\"}" + end;
      if (kind == "txt") text += n + "\tna\xC3\xAFve\t" + n + end;
      if (i % 1024 >= 1022) text += "\n\r\n";
    }
    while (text.ends_with('\n') || text.ends_with('\r')) text.pop_back();
    return text;
  }
  void write_gzip(const std::string& name, const std::string& text, const char* mode) const {
    gzFile file = gzopen((folder / name).c_str(), mode);
    gzwrite(file, text.data(), static_cast<unsigned>(text.size()));
    gzclose(file);
  }
  const ScratchFolder folder;
  const std::unique_ptr<Communicator> comm = make_single_communicator();
};

TEST_F(Scan, EachBlockIsReadAloneInEveryFormat) {
  for (const std::string kind : {"txt", "jsonl", "csv"}) {
    const CorpusScan corpus = scan("c." + kind, rows(kind));
    ASSERT_EQ(corpus.blocks(), 3) << kind;
    EXPECT_EQ(corpus.marks[1].document, 1024);
    expect_blocks(corpus, {0, 1, 2});
    expect_blocks(corpus, {1, 2});
    expect_blocks(corpus, {2});
  }
}

TEST_F(Scan, CompressedFilesOfSeveralMembersAreReadFromTheMiddle) {
  const std::string text = rows("txt");
  write_gzip("c.txt.gz", text.substr(0, 20'011), "wb");
  write_gzip("c.txt.gz", text.substr(20'011), "ab");
  const CorpusScan corpus = scan("c.txt.gz");
  ASSERT_EQ(corpus.blocks(), 3);
  expect_blocks(corpus, {0, 1, 2});
  expect_blocks(corpus, {2});
}

TEST_F(Scan, HashIsThatOfTheFile) {
  // printf '0\tone\n1\ttwo\n' | xxh128sum
  EXPECT_EQ(scan("c.txt", "0\tone\n1\ttwo\n").content, "f03ba09a5e0c7894bc5d1fc925e60abb");
}

TEST_F(Scan, FaultsAtTheBordersOfBlocksAreNamedByTheirLine) {
  for (const int bad : {1, 1023, 1024, 1025, 2048}) {
    std::string text;
    for (int line = 1; line < 2500; ++line)
      text += line == bad ? "no tab\n" : std::to_string(line) + "\tx\n";
    EXPECT_EQ(refused("c.txt", text),
              (folder / "c.txt").string() + ":" + std::to_string(bad) +
                  ": no tab between id and text; write `id<TAB>text` on one line");
    text.replace(text.find("no tab"), 6, "0\t\xFF!!!");
    EXPECT_THAT(refused("c.txt", text), HasSubstr(":" + std::to_string(bad) + ": byte 3 (0xff)"));
    text.replace(text.find("0\t\xFF!!!"), 6, "2499\tx");
    EXPECT_THAT(refused("c.txt", text),
                HasSubstr(":2499: the document id `2499` was given before"));
  }
}

TEST_F(Scan, OneDocumentIsABlockAndNoneIsRefused) {
  const CorpusScan corpus = scan("c.txt", "a\tb");
  EXPECT_EQ(corpus.blocks(), 1);
  expect_blocks(corpus, {0});
  EXPECT_THAT(refused("c.txt", ""), HasSubstr("there is no document in it"));
  EXPECT_THAT(refused("c.csv", "id,text\n"), HasSubstr("there is no document in it"));
}

TEST_F(Scan, WhatCannotBeReadTwiceIsRefused) {
  error_of(ExitCode::usage, [&] { scan_corpus("-", {}, *comm); });
  ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
  EXPECT_THAT(error_of(ExitCode::bad_data, [&] { scan("pipe"); }), HasSubstr("no regular file"));
  EXPECT_THAT(error_of(ExitCode::bad_data, [&] { scan(""); }), HasSubstr("no regular file"));
  error_of(ExitCode::io, [&] { scan("none.txt"); });
}

TEST_F(Scan, ALaterChangeIsNoticed) {
  const CorpusScan corpus = scan("c.txt", "a\tone\nb\ttwo\n");
  const auto again = [&] { CorpusBlocks blocks(corpus); };
  again();
  const auto before = fs::last_write_time(corpus.path);
  write_unsynced(corpus.path, "a\tone\nb\tTWO\n");
  fs::last_write_time(corpus.path, before + std::chrono::seconds(1));
  EXPECT_THAT(error_of(ExitCode::bad_data, again), HasSubstr("c.txt: it was changed"));
}

}  // namespace
}  // namespace gpuhpc
