#include "gpuhpc/io/lines.hpp"

#include <gmock/gmock.h>
#include <unistd.h>
#include <zlib.h>

#include "expect_error.hpp"
#include "gpuhpc/io/atomic_file.hpp"
#include "scratch_folder.hpp"

namespace gpuhpc {
namespace {
namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

void write_gzip(const fs::path& path, const std::string& text, const char* mode = "wb") {
  gzFile file = gzopen(path.c_str(), mode);
  ASSERT_EQ(gzwrite(file, text.data(), static_cast<unsigned>(text.size())),
            static_cast<int>(text.size()));
  gzclose(file);
}

std::vector<std::string> all_lines(const fs::path& path, LineReaderOptions options = {}) {
  LineReader reader(path, options);
  std::vector<std::string> lines;
  std::string line;
  while (reader.next(line)) lines.push_back(line);
  EXPECT_FALSE(reader.next(line));
  EXPECT_EQ(reader.line_number(), std::ssize(lines));
  return lines;
}

TEST(LineReader, EndsOfLinesAndMarks) {
  const ScratchFolder folder;
  write_text_file(folder / "a", "\xEF\xBB\xBFone\r\n\ntwo\nlast");
  EXPECT_THAT(all_lines(folder / "a"), ElementsAre("one", "", "two", "last"));
  write_text_file(folder / "a", "");
  EXPECT_TRUE(all_lines(folder / "a").empty());
  write_text_file(folder / "a", "\n");
  EXPECT_THAT(all_lines(folder / "a"), ElementsAre(""));
  write_text_file(folder / "a", "x");
  EXPECT_THAT(all_lines(folder / "a"), ElementsAre("x"));
}

TEST(LineReader, PlainAndGzipGiveTheSameAcrossBuffers) {
  const ScratchFolder folder;
  std::string text;
  std::vector<std::string> expected;
  for (int i = 0; i < 3000; ++i) {
    expected.push_back(std::to_string(i) + std::string(static_cast<std::size_t>(i * 7 % 900), 'a') +
                       "é");
    text += expected.back() + "\n";
  }
  expected.push_back(std::string(2'000'000, 'z'));
  text += expected.back();
  write_text_file(folder / "plain", text);
  write_gzip(folder / "packed.gz", text);
  EXPECT_EQ(all_lines(folder / "plain"), expected);
  EXPECT_EQ(all_lines(folder / "packed.gz"), expected);
}

TEST(LineReader, GoesOnFromAPositionAndPeeksWithoutTaking) {
  const ScratchFolder folder;
  std::string text = "\xEF\xBB\xBF";
  for (int i = 0; i < 100'000; ++i)
    text += std::to_string(i) + (i % 3 == 0 ? " a\r\n" : i % 3 == 1 ? " é\n" : "\n\n");
  write_text_file(folder / "plain", text + "last");
  write_gzip(folder / "packed.gz", text.substr(0, 400'001));
  write_gzip(folder / "packed.gz", text.substr(400'001) + "last", "ab");
  for (const char* name : {"plain", "packed.gz"}) {
    std::vector<std::int64_t> begins;
    std::vector<std::string> lines;
    LineReader whole(folder / name);
    std::string_view line, seen;
    while (whole.peek(seen)) {
      const std::string expected(seen);
      begins.push_back(whole.position());
      ASSERT_TRUE(whole.next(line));
      ASSERT_EQ(line, expected);
      ASSERT_EQ(whole.line_number(), std::ssize(begins));
      lines.emplace_back(line);
    }
    ASSERT_EQ(lines.size(), 133'334U) << name;
    EXPECT_EQ(lines.back(), "last");
    EXPECT_EQ(whole.position(), static_cast<std::int64_t>(text.size()) + 4);
    LineReader again(folder / name);
    for (const std::size_t at : {std::size_t{0}, std::size_t{1}, std::size_t{70'000},
                                 std::size_t{70'001}, lines.size() - 1}) {
      again.seek(begins[at], static_cast<std::int64_t>(at));
      ASSERT_TRUE(again.next(line)) << name << " " << at;
      EXPECT_EQ(line, lines[at]) << name << " " << at;
      EXPECT_EQ(again.line_number(), static_cast<std::int64_t>(at) + 1);
    }
    EXPECT_FALSE(again.next(line));
  }
}

TEST(LineReader, SeveralGzipMembers) {
  const ScratchFolder folder;
  write_gzip(folder / "a.gz", "one\ntw");
  write_gzip(folder / "a.gz", "o\nthree\n", "ab");
  EXPECT_THAT(all_lines(folder / "a.gz"), ElementsAre("one", "two", "three"));
}

TEST(LineReader, DamagedGzipIsAnErrorAtEveryCut) {
  const ScratchFolder folder;
  write_gzip(folder / "a.gz", "one\ntwo\nthree\nfour five six\n");
  const std::string whole = read_text_file(folder / "a.gz");
  for (std::size_t cut = 2; cut < whole.size(); ++cut) {
    write_unsynced(folder / "b.gz", whole.substr(0, cut));
    EXPECT_THAT(error_of(ExitCode::bad_data, [&] { all_lines(folder / "b.gz"); }),
                HasSubstr("ends early"))
        << cut;
  }
  for (std::size_t at = whole.size() - 8; at < whole.size();
       ++at) {  // checksum and length at the end
    std::string bent = whole;
    bent[at] = static_cast<char>(bent[at] ^ 4);
    write_unsynced(folder / "b.gz", bent);
    EXPECT_THAT(error_of(ExitCode::bad_data, [&] { all_lines(folder / "b.gz"); }),
                HasSubstr("is damaged"))
        << at;
  }
}

TEST(LineReader, NotUtf8NamesLineAndByte) {
  const ScratchFolder folder;
  write_text_file(folder / "a", "fine\nna\xEFve\n");
  const std::string message = error_of(ExitCode::bad_data, [&] { all_lines(folder / "a"); });
  EXPECT_EQ(message,
            (folder / "a").string() +
                ":2: byte 3 (0xef) is not UTF-8; find out what the file is written in and convert "
                "it: iconv -f ENCODING -t UTF-8");
  EXPECT_EQ(all_lines(folder / "a", {.check_utf8 = false}).size(), 2U);
}

// With a byte-order mark, without one, and in the order of old Macintoshes: `0<TAB>a` each.
TEST(LineReader, Utf16IsNamed) {
  const ScratchFolder folder;
  for (const std::string& text : {std::string("\xFF\xFE"
                                              "0\0\t\0a\0\n\0",
                                              10),
                                  std::string("0\0\t\0a\0\n\0", 8),
                                  std::string("\xFE\xFF\0"
                                              "0\0\t\0a\0\n",
                                              10)}) {
    write_text_file(folder / "a", text);
    EXPECT_THAT(
        error_of(ExitCode::bad_data, [&] { all_lines(folder / "a"); }),
        HasSubstr(":1: this is UTF-16 or no text at all; convert the file (iconv -f UTF-16"));
  }
}

TEST(ReadLines, WhatUnpacksToMoreThanItMayIsRefused) {
  const ScratchFolder folder;
  const gzFile file = gzopen((folder / "a.gz").c_str(), "wb");
  const std::string lines(1 << 20, '\n');
  for (int i = 0; i < 3; ++i) gzwrite(file, lines.data(), 1 << 20);
  gzclose(file);
  EXPECT_EQ(read_lines(folder / "a.gz", 4 << 20), lines + lines + lines);
  EXPECT_THAT(error_of(ExitCode::bad_data, [&] { read_lines(folder / "a.gz", 2 << 20); }),
              HasSubstr("a.gz: the text is longer than 2 MiB"));
}

TEST(LineReader, LongLinesAreRefused) {
  const ScratchFolder folder;
  write_text_file(folder / "a", "ok\n" + std::string(600'000, 'x'));
  EXPECT_THAT(
      error_of(ExitCode::bad_data, [&] { all_lines(folder / "a", {.max_line_bytes = 500'000}); }),
      HasSubstr(":2: the line is longer than 500000"));
}

TEST(LineReader, ReadsStandardInput) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const int saved = ::dup(STDIN_FILENO);
  ASSERT_EQ(::write(ends[1], "a\nb\xFF", 4), 4);
  ::close(ends[1]);
  ::dup2(ends[0], STDIN_FILENO);
  const std::string message = error_of(ExitCode::bad_data, [] { all_lines("-"); });
  ::dup2(saved, STDIN_FILENO);
  ::close(saved);
  ::close(ends[0]);
  EXPECT_THAT(message, HasSubstr("standard input:2: byte 2"));
}

TEST(LineReader, MissingFile) {
  EXPECT_THAT(error_of(ExitCode::io, [] { LineReader reader("/nowhere/x.txt"); }),
              HasSubstr("cannot open /nowhere/x.txt"));
}

TEST(Utf8, WellFormedSequencesOnly) {
  const auto bad = [](const std::string& text) { return find_invalid_utf8(text); };
  const auto npos = std::string::npos;
  EXPECT_EQ(bad("plain ascii, longer than eight bytes"), npos);
  EXPECT_EQ(bad("\xC3\xA9 \xE4\xB8\xAD \xF0\x9F\x98\x80"), npos);
  EXPECT_EQ(bad("\xED\x9F\xBF\xEE\x80\x80\xF4\x8F\xBF\xBF"), npos);
  EXPECT_EQ(bad("12345678\x80"), 8U);
  EXPECT_EQ(bad("\xC0\xAF"), 0U);          // overlong
  EXPECT_EQ(bad("\xE0\x80\xAF"), 0U);      // overlong
  EXPECT_EQ(bad("\xF0\x80\x80\xAF"), 0U);  // overlong
  EXPECT_EQ(bad("\xED\xA0\x80"), 0U);      // surrogate
  EXPECT_EQ(bad("\xF4\x90\x80\x80"), 0U);  // beyond U+10FFFF
  EXPECT_EQ(bad("ab\xE4\xB8"), 2U);        // cut
  EXPECT_EQ(bad("\xFE"), 0U);
}

}  // namespace
}  // namespace gpuhpc
