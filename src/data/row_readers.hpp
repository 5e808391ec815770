#pragma once
// One reader a format behind one interface: rows of (id, text) with the place of the row.
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "gpuhpc/data/corpus.hpp"
#include "gpuhpc/io/lines.hpp"

namespace gpuhpc {

// Lines with one line of look-ahead, so that the format can be told from the first line of a
// stream.
class PeekedLines {
 public:
  explicit PeekedLines(const std::filesystem::path& path) : reader_(path) {}
  bool next(std::string& line) {
    if (!peeked_) return reader_.next(line);
    line = std::move(*peeked_);
    peeked_.reset();
    return true;
  }
  // The next line without taking it; null at the end.
  const std::string* peek() {
    std::string line;
    if (!peeked_ && reader_.next(line)) peeked_ = std::move(line);
    return peeked_ ? &*peeked_ : nullptr;
  }
  std::string where() const { return reader_.where(); }

 private:
  LineReader reader_;
  std::optional<std::string> peeked_;
};

class RowReader {
 public:
  virtual ~RowReader() = default;
  // False at the end. An id that the row does not have is left empty with `has_id` false.
  virtual bool next(Document& document, bool& has_id) = 0;
  // Where the row given last begins.
  const std::string& where() const { return where_; }

 protected:
  std::string where_;
};

std::unique_ptr<RowReader> make_row_reader(PeekedLines& lines, CorpusFormat format,
                                           const CorpusOptions& options);

// One line of CSV added to `fields`. `open`: a quoted field goes on; set it to false (and clear the
// fields) before a record. Throws input_error with `where` for characters behind a closing quote.
void split_csv(std::string_view line, std::vector<std::string>& fields, bool& open,
               const std::string& where);
void split_tabs(std::string_view line, std::vector<std::string>& fields);

}  // namespace gpuhpc
