#include "row_readers.hpp"

#include <fmt/ranges.h>

#include <algorithm>

#include "gpuhpc/base/error.hpp"
#include "gpuhpc/io/json.hpp"

namespace gpuhpc {
namespace {

constexpr std::size_t max_field_bytes = std::size_t{1} << 30;

class TabbedRows final : public RowReader {
 public:
  explicit TabbedRows(PeekedLines& lines) : lines_(lines) {}
  bool next(Document& document, bool& has_id) override {
    do {
      if (!lines_.next(line_)) return false;
    } while (line_.empty());
    where_ = lines_.where();
    const std::size_t tab = line_.find('\t');
    if (tab == line_.npos)
      throw input_error("{}: no tab between id and text; write `id<TAB>text` on one line", where_);
    document.id.assign(line_, 0, tab);
    document.text.assign(line_, tab + 1, line_.npos);
    has_id = true;
    return true;
  }

 private:
  PeekedLines& lines_;
  std::string line_;
};

class JsonlRows final : public RowReader {
 public:
  JsonlRows(PeekedLines& lines, const CorpusOptions& options) : lines_(lines), options_(options) {}
  bool next(Document& document, bool& has_id) override {
    do {
      if (!lines_.next(line_)) return false;
    } while (line_.empty());
    where_ = lines_.where();
    const Json row = parse();
    const auto text = row.find(options_.text_field);
    if (text == row.end() || !text->is_string()) {
      throw input_error(
          "{}: no string field `{}`; name the field that holds the text with --input.text-field",
          where_, options_.text_field);
    }
    document.text = text->get<std::string>();
    const auto id = row.find(options_.id_field);
    has_id = id != row.end() && !id->is_null();
    document.id.clear();
    if (!has_id) return true;
    if (id->is_string()) {
      document.id = id->get<std::string>();
    } else if (id->is_number_integer()) {
      document.id = id->dump();
    } else {
      throw input_error(
          "{}: field `{}` is neither a string nor a whole number; give every document such an id",
          where_, options_.id_field);
    }
    return true;
  }

 private:
  Json parse() const {
    try {
      Json row = Json::parse(line_);
      if (row.is_object()) return row;
    } catch (const Json::parse_error& error) {
      throw input_error("{}: this is not valid JSON near character {}; write one object per line",
                        where_, error.byte);
    } catch (const Json::exception&) {
      throw input_error(
          "{}: the JSON holds a number that is out of range; write one object per line", where_);
    }
    throw input_error("{}: this is not a JSON object; write one object per line", where_);
  }
  PeekedLines& lines_;
  const CorpusOptions& options_;
  std::string line_;
};

// CSV and TSV: the first record names the columns.
class ColumnRows final : public RowReader {
 public:
  ColumnRows(PeekedLines& lines, const CorpusOptions& options, bool quoted)
      : lines_(lines), quoted_(quoted) {
    if (!record()) return;
    columns_ = fields_.size();
    const auto id = std::find(fields_.begin(), fields_.end(), options.id_field),
               text = std::find(fields_.begin(), fields_.end(), options.text_field);
    id_ = id - fields_.begin();
    text_ = text - fields_.begin();
    if (text == fields_.end()) missing(options.text_field, "--input.text-field");
    if (id == fields_.end() && !options.ids_optional) missing(options.id_field, "--input.id-field");
  }
  bool next(Document& document, bool& has_id) override {
    if (!record()) return false;
    if (fields_.size() != columns_) {
      throw input_error(
          "{}: {} fields where the first line names {} columns; quote fields that hold {}", where_,
          fields_.size(), columns_, quoted_ ? "commas or line breaks" : "tabs, in a CSV file");
    }
    document.text = std::move(fields_[static_cast<std::size_t>(text_)]);
    has_id = id_ < std::ssize(fields_);
    document.id = has_id ? std::move(fields_[static_cast<std::size_t>(id_)]) : "";
    return true;
  }

 private:
  [[noreturn]] void missing(const std::string& column, const char* option) const {
    throw input_error(
        "{}: no column `{}` in the first line, which names: {}; name the column with {}", where_,
        column, fmt::join(fields_, ", "), option);
  }
  // The next record that is not an empty line.
  bool record() {
    do {
      if (!lines_.next(record_)) return false;
    } while (record_.empty());
    where_ = lines_.where();
    if (!quoted_) {
      split_tabs(record_, fields_);
      return true;
    }
    fields_.clear();
    bool open = false;
    split_csv(record_, fields_, open, where_);
    while (open) {
      if (!lines_.next(record_))
        throw input_error(
            "{}: a quote is opened and never closed; close it or double the quotes inside the "
            "field",
            where_);
      split_csv(record_, fields_, open, where_);
      if (fields_.back().size() > max_field_bytes)
        throw input_error("{}: a quoted field is longer than {} bytes; close the quote", where_,
                          max_field_bytes);
    }
    return true;
  }
  PeekedLines& lines_;
  bool quoted_;
  std::string record_;
  std::vector<std::string> fields_;
  std::size_t columns_ = 0;
  std::ptrdiff_t id_ = 0, text_ = 0;
};

}  // namespace

void split_csv(std::string_view line, std::vector<std::string>& fields, bool& open,
               const std::string& where) {
  std::size_t at = 0;
  for (bool resumed = open;; resumed = false) {
    if (resumed) {
      fields.back().push_back('\n');
    } else {
      fields.emplace_back();
      open = at < line.size() && line[at] == '"';
      if (open) ++at;
    }
    const bool quoted = open;
    std::string& field = fields.back();
    while (open) {
      const std::size_t quote = std::min(line.find('"', at), line.size());
      field.append(line.substr(at, quote - at));
      if (quote == line.size()) return;  // goes on with the next line
      at = quote + 1;
      open = at < line.size() && line[at] == '"';
      if (open) {
        field.push_back('"');
        ++at;
      } else if (at < line.size() && line[at] != ',') {
        throw input_error("{}: text after a closing quote; double the quotes inside the field",
                          where);
      }
    }
    if (!quoted) {
      const std::size_t comma = std::min(line.find(',', at), line.size());
      field.assign(line.substr(at, comma - at));
      at = comma;
    }
    if (at == line.size()) return;
    ++at;  // the comma
  }
}

void split_tabs(std::string_view line, std::vector<std::string>& fields) {
  fields.clear();
  for (std::size_t at = 0;;) {
    const std::size_t tab = line.find('\t', at);
    fields.emplace_back(line.substr(at, tab == line.npos ? tab : tab - at));
    if (tab == line.npos) return;
    at = tab + 1;
  }
}

std::unique_ptr<RowReader> make_row_reader(PeekedLines& lines, CorpusFormat format,
                                           const CorpusOptions& options) {
  switch (format) {
    case CorpusFormat::jsonl:
      return std::make_unique<JsonlRows>(lines, options);
    case CorpusFormat::csv:
      return std::make_unique<ColumnRows>(lines, options, true);
    case CorpusFormat::tsv:
      return std::make_unique<ColumnRows>(lines, options, false);
    case CorpusFormat::automatic:
    case CorpusFormat::tabbed:
      break;
  }
  return std::make_unique<TabbedRows>(lines);
}

}  // namespace gpuhpc
