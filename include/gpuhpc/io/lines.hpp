#pragma once
// Text lines of a plain or gzip file, or of standard input ("-"), streamed: memory is one buffer
// and one line.
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "gpuhpc/base/utf8.hpp"

namespace gpuhpc {

class Fingerprint;

struct LineReaderOptions {
  bool check_utf8 = true;                               // else bytes pass as they are
  std::int64_t max_line_bytes = std::int64_t{1} << 30;  // a longer line is an input_error
  Fingerprint* content = nullptr;  // takes every byte of the file as it is read, compressed or not
};

class LineReader {
 public:
  // "-" is standard input. gzip is recognised by content. Throws io_error when the file cannot be
  // opened.
  explicit LineReader(const std::filesystem::path& path, LineReaderOptions options = {});
  ~LineReader();
  LineReader(LineReader&&) noexcept;
  LineReader& operator=(LineReader&&) noexcept;

  // The next line without its end (\n or \r\n); a byte-order mark at the start of the file is
  // dropped. The view holds until the next call. False at the end of the file. Throws input_error
  // "FILE:LINE: ..." for what check_text() refuses and for damaged gzip data.
  bool next(std::string_view& line);
  bool next(std::string& line);
  bool peek(std::string_view& line);  // the next line without taking it
  std::int64_t line_number() const;   // of the line given last, from 1
  std::string where() const;          // "FILE:LINE", for messages; of an empty file "FILE"
  std::string where(std::int64_t line) const;

  // Where the next line begins, in bytes of the text (of a gzip file: of what it unpacks to).
  std::int64_t position() const;
  // Goes on at a position further on, behind line number `line`. A plain file is read from there; a
  // gzip file is unpacked up to it.
  void seek(std::int64_t position, std::int64_t line);
  const std::filesystem::path& path() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Throws input_error "NAME:NUMBER: ..." unless the line is UTF-8 without zero bytes.
void check_text(std::string_view line, const std::string& name, std::int64_t number);

// All lines of a file that should be small, each with \n behind it; an input_error when the text
// is longer than `max_bytes`, however little of it a gzip file shows on the disk.
std::string read_lines(const std::filesystem::path& path, std::int64_t max_bytes);

// The fields of each line of a tabbed file that this program wrote; empty lines are none.
std::vector<std::vector<std::string>> read_table(const std::filesystem::path& tsv);

}  // namespace gpuhpc
