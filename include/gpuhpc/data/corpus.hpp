#pragma once
// Documents from text files: TELEClass `id<TAB>text`, JSONL, CSV, TSV; plain or .gz; files or
// standard input.
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "gpuhpc/comm/communicator.hpp"
#include "gpuhpc/config/options.hpp"

namespace gpuhpc {

class Fingerprint;

enum class CorpusFormat {
  // by name without .gz: .jsonl/.ndjson, .csv, .tsv (tabbed where its first line cannot be a
  // header); else a first line that begins with `{` is JSONL; else tabbed
  automatic,
  tabbed,  // id<TAB>text, split at the first tab only, no header
  jsonl,   // one object per line
  csv,     // header line, quoted fields ("" is a quote; line breaks inside quotes)
  tsv,     // header line, tabs, no quoting
  lines    // a text per line; the line's number (from 0) is the id
};

// Rows of several columns in the place of id and text: JSONL, CSV, TSV with a header. A row is bad
// when it lacks a column, has a blank text or a fault of its own, or is no row of its format.
struct RowOptions {
  std::vector<std::string> texts = {};   // columns of strings
  std::vector<std::string> values = {};  // columns of anything: numbers and arrays as JSON has them
  std::vector<std::string> prompts = {};  // put before the texts, one for each; or none
  // What is wrong with a row of these values; nothing: empty.
  std::function<std::string(std::span<const std::string> values)> fault = {};
  bool skip = false;      // bad rows are left out; else the first one is an error
  std::int64_t most = 0;  // sound rows that are read; 0: all
  std::string section =
      {};  // whose options `columns`, `score` and `bad-rows` said this, for messages
};

struct CorpusOptions {
  static constexpr const char* section = "input";
  std::string format = "auto";  // auto|tabbed|jsonl|csv|tsv|lines
  std::string id_field = "id";  // JSONL key, CSV/TSV column
  std::string text_field = "text";
  // JSONL, CSV, TSV: where no row has a field `id`, the number of its line (JSONL) or row (from 0)
  // is its id. A field of another name is wanted by name, and must be there.
  bool ids_optional = false;
  bool id_needed() const { return !ids_optional || id_field != CorpusOptions{}.id_field; }
  bool check_duplicates = true;         // remembers 16 bytes per document
  std::optional<RowOptions> rows = {};  // instead of id and text
};
// input.format, input.id-field, input.text-field
void declare(config::Section& section, CorpusOptions& options);

struct Document {
  std::string id, text;
  std::vector<std::string> fields = {};  // RowOptions: texts, then values; the text is empty then
};

// Rows that were left out (RowOptions::skip).
struct BadRows {
  std::int64_t count = 0;
  std::vector<std::string> first;  // a sentence with file and line for each of the first few
};

// A place between two documents.
struct CorpusMark {
  std::int64_t document = 0;  // number of the next one
  std::int64_t byte = 0;      // where it begins (of a .gz file: in what it unpacks to)
  std::int64_t line = 0;      // lines before it
  std::int64_t text = 0;      // bytes of text of the documents before it
};

// Streams in bounded memory. Errors are input_errors "FILE:LINE: what; cure" (exit 65): missing
// tab, missing field, empty or duplicate id, empty file, bytes that are not UTF-8, broken JSON or
// CSV. Lines with nothing in them are passed over; a text may be empty.
class CorpusReader {
 public:
  // "-": standard input. `content` takes the bytes of the file as they are read.
  explicit CorpusReader(const std::filesystem::path& path, CorpusOptions options = {},
                        Fingerprint* content = nullptr);
  ~CorpusReader();
  CorpusReader(CorpusReader&&) noexcept;
  CorpusReader& operator=(CorpusReader&&) noexcept;
  bool next(Document& document);  // false at the end
  std::int64_t count() const;     // documents before this place
  // Whether the last document's id is a number in the place of a field that its row does not have.
  bool numbered() const;
  const BadRows& bad_rows() const;    // before this place
  std::string where() const;          // FILE:LINE of the last one
  CorpusMark mark() const;            // behind the last one
  void seek(const CorpusMark& mark);  // to a place further on

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// What one pass over a corpus file finds, the same on every rank: every row is sound, and this is
// where they are.
struct CorpusScan {
  std::filesystem::path path;
  CorpusOptions options;
  // Where its blocks of at most 1,024 documents (and about 4 MiB of text) begin, and the end.
  std::vector<CorpusMark> marks;
  std::string content;  // hash of the file's bytes as they are, as `xxh128sum` prints it
  std::int64_t file_bytes = 0, modified = 0;  // nanoseconds of the file system's clock
  BadRows bad_rows = {};                      // on the root
  std::int64_t documents() const { return marks.back().document; }
  std::int64_t blocks() const { return std::ssize(marks) - 1; }
  std::string bad_row_warning() const;  // one sentence; none: empty
};
// Collective: the root reads, and hands every document to `each` if that is given. Memory: 16 bytes
// per document, for ids that come twice. A pipe is refused: the rows are read a second time.
CorpusScan scan_corpus(const std::filesystem::path& path, const CorpusOptions& options,
                       Communicator& comm, const std::function<void(const Document&)>& each = {});

// Blocks of a scanned corpus, in ascending order: each parsed alone, nothing before it.
class CorpusBlocks {
 public:
  // input_error when the file has changed since the scan.
  explicit CorpusBlocks(const CorpusScan& scan);
  // Appends the documents of one block.
  void read(std::int64_t block, std::vector<Document>& documents);

 private:
  const CorpusScan& scan_;
  CorpusReader reader_;
};

struct Corpus {
  std::vector<std::string> ids, texts;
  std::int64_t size() const { return static_cast<std::int64_t>(ids.size()); }
};
Corpus read_corpus(const std::filesystem::path& path, const CorpusOptions& options = {});

}  // namespace gpuhpc
