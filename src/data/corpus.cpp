#include "gpuhpc/data/corpus.hpp"

#include "gpuhpc/base/error.hpp"
#include "id_set.hpp"
#include "row_readers.hpp"

namespace gpuhpc {
namespace fs = std::filesystem;
namespace {

constexpr std::size_t max_id_bytes = 4096;

CorpusFormat format_of(const std::string& word) {
  if (word == "auto") return CorpusFormat::automatic;
  if (word == "tabbed") return CorpusFormat::tabbed;
  if (word == "jsonl") return CorpusFormat::jsonl;
  if (word == "csv") return CorpusFormat::csv;
  if (word == "tsv") return CorpusFormat::tsv;
  throw usage_error("input.format `{}` is not one of auto, tabbed, jsonl, csv, tsv", word);
}

bool names_column(const std::string& line, const CorpusOptions& options) {
  std::vector<std::string> fields;
  split_tabs(line, fields);
  bool id = options.ids_optional, text = false;
  for (const auto& field : fields) {
    id = id || field == options.id_field;
    text = text || field == options.text_field;
  }
  return id && text;
}

CorpusFormat recognise(const fs::path& path, const std::string& first_line,
                       const CorpusOptions& options) {
  fs::path name = path.filename();
  if (name.extension() == ".gz") name = name.stem();
  const fs::path extension = name.extension();
  if (extension == ".jsonl" || extension == ".ndjson") return CorpusFormat::jsonl;
  if (extension == ".csv") return CorpusFormat::csv;
  if (extension == ".tsv" && names_column(first_line, options)) return CorpusFormat::tsv;
  return first_line.starts_with('{') ? CorpusFormat::jsonl : CorpusFormat::tabbed;
}

}  // namespace

void declare(config::Section& section, CorpusOptions& options) {
  section.option("format", options.format, "format of text files; auto goes by name and first line")
      .one_of({"auto", "tabbed", "jsonl", "csv", "tsv"});
  section.option("id-field", options.id_field,
                 "JSONL key or CSV/TSV column that holds a document's id");
  section.option("text-field", options.text_field,
                 "JSONL key or CSV/TSV column that holds a document's text");
}

struct CorpusReader::State {
  State(const fs::path& path, CorpusOptions chosen) : options(std::move(chosen)), lines(path) {
    CorpusFormat format = format_of(options.format);
    const std::string* first = lines.peek();
    if (format == CorpusFormat::automatic)
      format = recognise(path, first == nullptr ? "" : *first, options);
    rows = make_row_reader(lines, format, options);
  }

  bool next(Document& document) {
    bool has_id = false;
    if (!rows->next(document, has_id)) {
      if (count == 0)
        throw input_error("{}: there is no document in it; give a file with at least one",
                          lines.where());
      return false;
    }
    if (!has_id && !options.ids_optional) {
      throw input_error("{}: no field `{}`; name the field that holds the id with --input.id-field",
                        rows->where(), options.id_field);
    }
    if (!has_id) document.id = std::to_string(count);
    check_id(document.id);
    ++count;
    return true;
  }

  void check_id(const std::string& id) {
    if (id.empty())
      throw input_error("{}: the document id is empty; give every document an id of its own",
                        rows->where());
    if (id.size() > max_id_bytes)
      throw input_error(
          "{}: the document id is {} bytes long, at most {} are allowed; is a tab missing?",
          rows->where(), id.size(), max_id_bytes);
    for (const char c : id) {
      if (static_cast<unsigned char>(c) < 0x20)
        throw input_error("{}: the document id holds a control character; remove it",
                          rows->where());
    }
    if (options.check_duplicates && !seen.insert(id)) {
      throw input_error("{}: the document id `{}` was given before; ids must differ", rows->where(),
                        id);
    }
  }

  CorpusOptions options;
  PeekedLines lines;
  std::unique_ptr<RowReader> rows;
  IdSet seen;
  std::int64_t count = 0;
};

CorpusReader::CorpusReader(const fs::path& path, CorpusOptions options)
    : state_(std::make_unique<State>(path, std::move(options))) {}
CorpusReader::~CorpusReader() = default;
CorpusReader::CorpusReader(CorpusReader&&) noexcept = default;
CorpusReader& CorpusReader::operator=(CorpusReader&&) noexcept = default;

bool CorpusReader::next(Document& document) { return state_->next(document); }
std::int64_t CorpusReader::count() const { return state_->count; }
std::string CorpusReader::where() const { return state_->rows->where(); }

Corpus read_corpus(const fs::path& path, const CorpusOptions& options) {
  CorpusReader reader(path, options);
  Corpus corpus;
  Document document;
  while (reader.next(document)) {
    corpus.ids.push_back(std::move(document.id));
    corpus.texts.push_back(std::move(document.text));
  }
  return corpus;
}

}  // namespace gpuhpc
