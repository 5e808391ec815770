#include "row_readers.hpp"

#include <fmt/ranges.h>

#include <algorithm>

#include "gpuhpc/base/error.hpp"
#include "gpuhpc/io/json.hpp"

namespace gpuhpc {
namespace fs = std::filesystem;
namespace {

constexpr std::size_t max_field_bytes = std::size_t{1} << 30;

class TabbedRows final : public RowReader {
 public:
  explicit TabbedRows(LineReader& lines) : RowReader(lines) {}
  bool next(Document& document, bool& has_id) override {
    std::string_view line;
    if (!first_line(line)) return false;
    const std::size_t tab = line.find('\t');
    if (tab == line.npos)
      throw input_error("{}: no tab between id and text; write `id<TAB>text` on one line", where());
    document.id.assign(line, 0, tab);
    document.text.assign(line, tab + 1, line.npos);
    has_id = true;
    return true;
  }
};

class PlainLines final : public RowReader {
 public:
  explicit PlainLines(LineReader& lines) : RowReader(lines) {}
  bool next(Document& document, bool& has_id) override {
    std::string_view line;
    if (!first_line(line)) return false;
    document.id = line_from_0(), document.text = line;
    has_id = false;
    return true;
  }
};

class JsonlRows final : public RowReader {
 public:
  JsonlRows(LineReader& lines, const CorpusOptions& options)
      : RowReader(lines), options_(options) {}
  bool next(Document& document, bool& has_id) override {
    std::string_view line;
    if (!first_line(line)) return false;
    Json row = parse(line);
    if (options_.rows) {
      document.fields.clear();
      for (const std::string& name : options_.rows->texts)
        document.fields.push_back(
            std::move(string_field(row, name, options_.rows->section + ".columns")));
      for (const std::string& name : options_.rows->values)
        document.fields.push_back(value_field(row, name));
      return true;
    }
    document.text = std::move(string_field(row, options_.text_field, "--input.text-field"));
    const auto id = row.find(options_.id_field);
    has_id = id != row.end() && !id->is_null();
    if (!has_id) {
      document.id = line_from_0();
      return true;
    }
    if (id->is_string()) {
      document.id = options_.id_field == options_.text_field ? document.text
                                                             : id->get_ref<const std::string&>();
    } else if (id->is_number_integer()) {
      document.id = id->dump();
    } else {
      throw input_error(
          "{}: field `{}` is neither a string nor a whole number; give every document such an id",
          where(), options_.id_field);
    }
    return true;
  }

 private:
  Json parse(std::string_view line) const {
    try {
      Json row = Json::parse(line);
      if (row.is_object()) return row;
    } catch (const Json::parse_error& error) {
      throw BadRow("{}: this is not valid JSON near character {}; write one object per line",
                   where(), error.byte);
    } catch (const Json::exception&) {
      throw BadRow("{}: the JSON holds a number that is out of range; write one object per line",
                   where());
    }
    throw BadRow("{}: this is not a JSON object; write one object per line", where());
  }
  std::string& string_field(Json& row, const std::string& name, const std::string& option) const {
    const auto field = row.find(name);
    if (field == row.end() || !field->is_string())
      throw BadRow(
          "{}: no string field `{}` among the row's {}; name the field that holds the text with "
          "{}",
          where(), name, names_of(row), option);
    return field->get_ref<std::string&>();
  }
  std::string value_field(const Json& row, const std::string& name) const {
    const auto field = row.find(name);
    if (field == row.end() || field->is_null())
      throw BadRow("{}: no field `{}` among the row's {}; name the field with {}.score", where(),
                   name, names_of(row), options_.rows->section);
    return field->is_string() ? field->get<std::string>() : field->dump();
  }
  static std::string names_of(const Json& row) {
    std::vector<std::string> names;
    for (const auto& [name, value] : row.items()) names.push_back(name);
    return fmt::format("{}", fmt::join(names, ", "));
  }
  const CorpusOptions& options_;
};

// One line of CSV added to `fields`. `open`: a quoted field goes on; set it to false (and clear the
// fields) before a record. False for characters behind a closing quote.
bool split_csv(std::string_view line, std::vector<std::string>& fields, bool& open) {
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
      if (quote == line.size()) return true;  // goes on with the next line
      at = quote + 1;
      open = at < line.size() && line[at] == '"';
      if (open) {
        field.push_back('"');
        ++at;
      } else if (at < line.size() && line[at] != ',') {
        return false;
      }
    }
    if (!quoted) {
      const std::size_t comma = std::min(line.find(',', at), line.size());
      field.assign(line.substr(at, comma - at));
      at = comma;
    }
    if (at == line.size()) return true;
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

// CSV and TSV: the first record names the columns.
class ColumnRows final : public RowReader {
 public:
  ColumnRows(LineReader& lines, const CorpusOptions& options, bool quoted)
      : RowReader(lines), quoted_(quoted) {
    if (!record()) return;
    columns_ = fields_.size();
    if (options.rows) {
      for (const auto& [names, option] :
           {std::pair(options.rows->texts, ".columns"), std::pair(options.rows->values, ".score")})
        for (const std::string& name : names)
          places_.push_back(
              place(name, options.rows->section.empty() ? "" : options.rows->section + option));
      return;
    }
    text_ = place(options.text_field, "--input.text-field");
    const auto id = std::find(fields_.begin(), fields_.end(), options.id_field);
    id_ = id - fields_.begin();
    if (id == fields_.end() && options.id_needed()) missing(options.id_field, "--input.id-field");
  }
  bool next(Document& document, bool& has_id) override {
    if (!record()) return false;
    if (fields_.size() != columns_) {
      throw BadRow("{}: {} fields where the first line names {} columns; quote fields that hold {}",
                   where(), fields_.size(), columns_,
                   quoted_ ? "commas or line breaks" : "tabs, in a CSV file");
    }
    if (!places_.empty()) {
      document.fields.clear();
      for (const std::size_t place : places_) document.fields.push_back(fields_[place]);
      return true;
    }
    document.text = std::move(fields_[text_]);
    has_id = id_ < std::ssize(fields_);
    document.id = has_id ? std::move(fields_[static_cast<std::size_t>(id_)]) : "";
    return true;
  }

 private:
  std::size_t place(const std::string& column, const std::string& option) const {
    const auto found = std::find(fields_.begin(), fields_.end(), column);
    if (found == fields_.end()) missing(column, option);
    return static_cast<std::size_t>(found - fields_.begin());
  }
  [[noreturn]] void missing(const std::string& column, const std::string& option) const {
    throw input_error(
        "{}: no column `{}` in the first line, which names: {}; {}", where(), column,
        fmt::join(fields_, ", "),
        option.empty() ? "give the column this name" : "name the column with " + option);
  }
  // The next record that is not an empty line.
  bool record() {
    std::string_view line;
    if (!first_line(line)) return false;
    if (!quoted_) {
      split_tabs(line, fields_);
      return true;
    }
    fields_.clear();
    bool open = false;
    split(line, open);
    while (open) {
      if (!lines_.next(line))
        throw input_error(
            "{}: a quote is opened and never closed; close it or double the quotes inside the "
            "field",
            where());
      split(line, open);
      if (fields_.back().size() > max_field_bytes)
        throw input_error("{}: a quoted field is longer than {} bytes; close the quote", where(),
                          max_field_bytes);
    }
    return true;
  }
  void split(std::string_view line, bool& open) {
    if (!split_csv(line, fields_, open))
      throw input_error("{}: text after a closing quote; double the quotes inside the field",
                        where());
  }
  bool quoted_;
  std::vector<std::string> fields_;
  std::size_t columns_ = 0;
  std::ptrdiff_t id_ = 0;
  std::size_t text_ = 0;
  std::vector<std::size_t> places_;  // of RowOptions' columns
};

CorpusFormat format_of(const std::string& word) {
  if (word == "auto") return CorpusFormat::automatic;
  if (word == "tabbed") return CorpusFormat::tabbed;
  if (word == "jsonl") return CorpusFormat::jsonl;
  if (word == "csv") return CorpusFormat::csv;
  if (word == "tsv") return CorpusFormat::tsv;
  if (word == "lines") return CorpusFormat::lines;
  throw usage_error("input.format `{}` is not one of auto, tabbed, jsonl, csv, tsv, lines", word);
}

// Whether the first line of a .tsv is a header. One that may be a header of other names is refused:
// it would be a document, and every column after the first its text.
bool is_header(const fs::path& path, std::string_view line, const CorpusOptions& options) {
  std::vector<std::string> fields;
  split_tabs(line, fields);
  const auto named = [&](const std::string& field) {
    return std::ranges::count(fields, field) > 0;
  };
  const bool id = named(options.id_field), text = named(options.text_field);
  if (text && (id || !options.id_needed())) return true;
  const auto quoted = [&](const std::string& field) { return named('"' + field + '"'); };
  const bool other_names = options.id_field != CorpusOptions{}.id_field ||
                           options.text_field != CorpusOptions{}.text_field;
  if (id || text || other_names || fields.size() > 2 || quoted(options.id_field) ||
      quoted(options.text_field))
    throw input_error(
        "{}:1: the first line does not name the columns `{}` and `{}`, without quotes; name them "
        "as they are with --input.id-field and --input.text-field, or say with --input.format "
        "tabbed that the lines are id<TAB>text from the first on",
        path.string(), options.id_field, options.text_field);
  return false;
}

CorpusFormat recognise(const fs::path& path, std::string_view first_line,
                       const CorpusOptions& options) {
  fs::path name = path.filename();
  if (name.extension() == ".gz") name = name.stem();
  const fs::path extension = name.extension();
  if (extension == ".jsonl" || extension == ".ndjson") return CorpusFormat::jsonl;
  if (extension == ".csv") return CorpusFormat::csv;
  if (extension == ".tsv" && (options.rows || is_header(path, first_line, options)))
    return CorpusFormat::tsv;
  if (!options.rows && first_line == options.id_field + '\t' + options.text_field)
    throw input_error(
        "{}:1: the first line is a header, and would be a document; remove it, or give "
        "--input.format tsv",
        path.string());
  return first_line.starts_with('{') ? CorpusFormat::jsonl : CorpusFormat::tabbed;
}

}  // namespace

std::unique_ptr<RowReader> make_row_reader(LineReader& lines, const CorpusOptions& options) {
  CorpusFormat format = format_of(options.format);
  std::string_view first;
  lines.peek(first);
  if (format == CorpusFormat::automatic) format = recognise(lines.path(), first, options);
  switch (format) {
    case CorpusFormat::jsonl:
      return std::make_unique<JsonlRows>(lines, options);
    case CorpusFormat::csv:
      return std::make_unique<ColumnRows>(lines, options, true);
    case CorpusFormat::tsv:
      return std::make_unique<ColumnRows>(lines, options, false);
    case CorpusFormat::lines:
      return std::make_unique<PlainLines>(lines);
    case CorpusFormat::automatic:
    case CorpusFormat::tabbed:
      break;
  }
  if (options.rows)
    throw input_error(
        "{}: columns have names in JSONL, CSV and TSV alone; give --input.format, or name the file "
        "as what it is",
        lines.path().string());
  return std::make_unique<TabbedRows>(lines);
}

}  // namespace gpuhpc
