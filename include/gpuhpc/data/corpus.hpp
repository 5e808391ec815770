#pragma once
// Documents from text files: TELEClass `id<TAB>text`, JSONL, CSV, TSV; plain or .gz; files or
// standard input.
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "gpuhpc/config/options.hpp"

namespace gpuhpc {

enum class CorpusFormat {
  automatic,  // by name without .gz: .jsonl/.ndjson, .csv, .tsv (tabbed when its first line names
              // no columns); else a first line that begins with `{` is JSONL; else tabbed
  tabbed,     // id<TAB>text, split at the first tab only, no header
  jsonl,      // one object a line
  csv,        // header line, quoted fields ("" is a quote; line breaks inside quotes)
  tsv         // header line, tabs, no quoting
};

struct CorpusOptions {
  static constexpr const char* section = "input";
  std::string format = "auto";  // auto|tabbed|jsonl|csv|tsv
  std::string id_field = "id";  // JSONL key, CSV/TSV column
  std::string text_field = "text";
  bool ids_optional =
      false;  // JSONL, CSV, TSV: a row without the id field gets its number (from 0) as id
  bool check_duplicates = true;  // remembers 16 bytes a document
};
// input.format, input.id-field, input.text-field
void declare(config::Section& section, CorpusOptions& options);

struct Document {
  std::string id, text;
};

// Streams in bounded memory. Errors are input_errors "FILE:LINE: what; cure" (exit 65): missing
// tab, missing field, empty or duplicate id, empty file, bytes that are not UTF-8, broken JSON or
// CSV. Lines with nothing in them are passed over; a text may be empty.
class CorpusReader {
 public:
  explicit CorpusReader(const std::filesystem::path& path,
                        CorpusOptions options = {});  // "-": standard input
  ~CorpusReader();
  CorpusReader(CorpusReader&&) noexcept;
  CorpusReader& operator=(CorpusReader&&) noexcept;
  bool next(Document& document);  // false at the end
  std::int64_t count() const;     // documents given so far
  std::string where() const;      // FILE:LINE of the last one

 private:
  struct State;
  std::unique_ptr<State> state_;
};

struct Corpus {
  std::vector<std::string> ids, texts;
  std::int64_t size() const { return static_cast<std::int64_t>(ids.size()); }
};
Corpus read_corpus(const std::filesystem::path& path, const CorpusOptions& options = {});

}  // namespace gpuhpc
