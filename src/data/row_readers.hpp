#pragma once
// One reader a format behind one interface: rows of (id, text).
#include <memory>

#include "gpuhpc/base/error.hpp"
#include "gpuhpc/data/corpus.hpp"
#include "gpuhpc/io/lines.hpp"

namespace gpuhpc {

// One row is not what it should be; the reader can go on behind it.
class BadRow : public Error {
 public:
  template <typename... Args>
  explicit BadRow(fmt::format_string<Args...> format, Args&&... args)
      : Error(input_error(format, std::forward<Args>(args)...)) {}
};

class RowReader {
 public:
  virtual ~RowReader() = default;
  // False at the end. Where the row has no id `has_id` is false, and the id is the number of its
  // line from 0 in formats of a row per line, else empty. With CorpusOptions::rows there are fields
  // alone.
  virtual bool next(Document& document, bool& has_id) = 0;
  std::string where() const { return lines_.where(line_); }  // the first line of the last row

 protected:
  explicit RowReader(LineReader& lines) : lines_(lines) {}
  // The next line that is not empty, which begins a row.
  bool first_line(std::string_view& line) {
    do {
      if (!lines_.next(line)) return false;
    } while (line.empty());
    line_ = lines_.line_number();
    return true;
  }
  std::string line_from_0() const { return std::to_string(line_ - 1); }
  LineReader& lines_;

 private:
  std::int64_t line_ = 0;
};

// `path` and the first line tell the format unless the options name it.
std::unique_ptr<RowReader> make_row_reader(LineReader& lines, const CorpusOptions& options);

}  // namespace gpuhpc
