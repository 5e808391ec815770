#include "gpuhpc/data/corpus.hpp"

#include <fmt/ranges.h>
#include <sys/stat.h>

#include <cerrno>
#include <utility>

#include "gpuhpc/base/error.hpp"
#include "gpuhpc/comm/run_collectively.hpp"
#include "gpuhpc/io/atomic_file.hpp"
#include "gpuhpc/io/checksum.hpp"
#include "row_readers.hpp"

namespace gpuhpc {
namespace fs = std::filesystem;
namespace {

constexpr std::size_t max_id_bytes = 4096;
constexpr std::size_t named_bad_rows = 5;
constexpr std::int64_t block_documents = 1024, block_text = std::int64_t{4} << 20;

// Which ids were seen: 16 bytes of hash each, open addressing, at most 60% full.
class IdSet {
 public:
  // False when `id` was there already.
  bool insert(std::string_view id) {
    if (10 * (used_ + 1) > 6 * slots_.size()) grow();
    Hash128 hash = xxh3_128(id);
    if (hash == Hash128{}) hash.low = 1;
    if (!place(hash)) return false;
    ++used_;
    return true;
  }

 private:
  bool place(Hash128 hash) {
    const std::size_t mask = slots_.size() - 1;
    for (std::size_t at = hash.low & mask;; at = (at + 1) & mask) {
      if (slots_[at] == hash) return false;
      if (slots_[at] == Hash128{}) {
        slots_[at] = hash;
        return true;
      }
    }
  }
  void grow() {
    std::vector<Hash128> old(slots_.empty() ? 1024 : 2 * slots_.size());
    std::swap(old, slots_);
    for (const Hash128& hash : old)
      if (!(hash == Hash128{})) place(hash);
  }
  std::vector<Hash128> slots_;  // all-zero: free
  std::size_t used_ = 0;
};

// Size and time of last change of a file that can be read twice.
std::pair<std::int64_t, std::int64_t> state_of(const fs::path& path) {
  if (path == "-")
    throw usage_error(
        "standard input can be read once only, this command reads twice; give a file");
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) throw system_error("open", path, errno);
  if (!S_ISREG(status.st_mode))
    throw input_error("{}: this is no regular file, and its rows are read twice; give a file",
                      path.string());
  return {status.st_size, status.st_mtim.tv_sec * 1'000'000'000 + status.st_mtim.tv_nsec};
}

[[noreturn]] void changed(const fs::path& path) {
  throw input_error("{}: it was changed while this program read it; start again", path.string());
}

CorpusOptions without_duplicates(CorpusOptions options) {
  options.check_duplicates = false;
  return options;
}

}  // namespace

void declare(config::Section& section, CorpusOptions& options) {
  section.option("format", options.format, "format of text files; auto goes by name and first line")
      .one_of({"auto", "tabbed", "jsonl", "csv", "tsv", "lines"});
  section.option("id-field", options.id_field,
                 "JSONL key or CSV/TSV column that holds a document's id");
  section.option("text-field", options.text_field,
                 "JSONL key or CSV/TSV column that holds a document's text");
}

struct CorpusReader::State {
  State(const fs::path& path, CorpusOptions chosen, Fingerprint* content)
      : options(std::move(chosen)),
        lines(path, {.content = content}),
        rows(make_row_reader(lines, options)) {}

  bool next(Document& document) {
    if (!options.rows) return next_document(document);
    for (;;) {
      try {
        return next_row(document);
      } catch (const BadRow& row) {
        if (!options.rows->skip)
          throw input_error("{}{}", row.what(),
                            options.rows->section.empty()
                                ? ""
                                : fmt::format("; or leave bad rows out with {}.bad-rows skip",
                                              options.rows->section));
        ++bad.count;
        if (bad.first.size() < named_bad_rows) bad.first.emplace_back(row.what());
      }
    }
  }

  bool next_row(Document& row) {
    const RowOptions& wanted = *options.rows;
    if (wanted.most > 0 && mark.document == wanted.most) return false;
    bool has_id = false;
    if (!rows->next(row, has_id)) {
      if (mark.document == 0)
        throw input_error("{}: there is no sound row in it{}", lines.where(),
                          bad.first.empty() ? "; give a file with at least one"
                                            : "; the first: " + bad.first.front());
      return false;
    }
    for (std::size_t i = 0; i < wanted.texts.size(); ++i) {
      if (row.fields[i].find_first_not_of(" \t\r\n\v\f") == std::string::npos)
        throw BadRow("{}: the text in column `{}` is empty; give every row its texts",
                     rows->where(), wanted.texts[i]);
      if (!wanted.prompts.empty()) row.fields[i].insert(0, wanted.prompts[i]);
    }
    if (wanted.fault) {
      const auto values = std::span(row.fields).subspan(wanted.texts.size());
      if (const std::string fault = wanted.fault(values); !fault.empty())
        throw BadRow("{}: {}", rows->where(), fault);
    }
    std::int64_t bytes = 0;
    for (const std::string& field : row.fields) bytes += std::ssize(field);
    row.id = std::to_string(mark.document);
    mark = {mark.document + 1, lines.position(), lines.line_number(), mark.text + bytes};
    return true;
  }

  bool next_document(Document& document) {
    bool has_id = false;
    if (!rows->next(document, has_id)) {
      if (mark.document == 0)
        throw input_error("{}: there is no document in it; give a file with at least one",
                          lines.where());
      return false;
    }
    if (!has_id && options.id_needed() && options.format != "lines")
      throw input_error("{}: no field `{}`; name the field that holds the id with --input.id-field",
                        rows->where(), options.id_field);
    numbered = !has_id && options.format != "lines";
    if (document.id.empty() && !has_id) document.id = std::to_string(mark.document);
    check_id(document.id);
    mark = {mark.document + 1, lines.position(), lines.line_number(),
            mark.text + std::ssize(document.text)};
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
  LineReader lines;
  std::unique_ptr<RowReader> rows;
  IdSet seen;
  CorpusMark mark;
  BadRows bad;
  bool numbered = false;  // the last row
};

CorpusReader::CorpusReader(const fs::path& path, CorpusOptions options, Fingerprint* content)
    : state_(std::make_unique<State>(path, std::move(options), content)) {}
CorpusReader::~CorpusReader() = default;
CorpusReader::CorpusReader(CorpusReader&&) noexcept = default;
CorpusReader& CorpusReader::operator=(CorpusReader&&) noexcept = default;

bool CorpusReader::next(Document& document) { return state_->next(document); }
std::int64_t CorpusReader::count() const { return state_->mark.document; }
bool CorpusReader::numbered() const { return state_->numbered; }
const BadRows& CorpusReader::bad_rows() const { return state_->bad; }
std::string CorpusReader::where() const { return state_->rows->where(); }
CorpusMark CorpusReader::mark() const { return state_->mark; }
void CorpusReader::seek(const CorpusMark& mark) {
  if (mark.document > 0) state_->lines.seek(mark.byte, mark.line);
  state_->mark = mark;
}

std::string CorpusScan::bad_row_warning() const {
  if (bad_rows.count == 0) return "";
  return fmt::format("{}: {} bad rows are left out, {} stay. {}", path.string(), bad_rows.count,
                     documents(), fmt::join(bad_rows.first, ". "));
}

CorpusScan scan_corpus(const fs::path& path, const CorpusOptions& options, Communicator& comm,
                       const std::function<void(const Document&)>& each) {
  CorpusScan scan{path, options, {{}}, "", 0, 0};
  std::vector<std::int64_t> wire;  // file_bytes, modified and four numbers a mark
  run_long(comm, [&] {
    if (!comm.is_root()) return;
    std::tie(scan.file_bytes, scan.modified) = state_of(path);
    Fingerprint content;
    CorpusReader reader(path, options, &content);
    for (Document document; reader.next(document);) {
      const CorpusMark here = reader.mark(), &block = scan.marks.back();
      if (here.document - block.document == block_documents || here.text - block.text >= block_text)
        scan.marks.push_back(here);
      if (each) each(document);
    }
    scan.bad_rows = reader.bad_rows();
    if (scan.marks.back().document < reader.count()) scan.marks.push_back(reader.mark());
    scan.content = content.hex();
    wire = {scan.file_bytes, scan.modified};
    for (const CorpusMark& mark : scan.marks)
      wire.insert(wire.end(), {mark.document, mark.byte, mark.line, mark.text});
  });
  if (comm.size() == 1) return scan;
  scan.content = comm.broadcast_string(scan.content);
  std::int64_t size = std::ssize(wire);
  comm.broadcast(&size, 1, DataType::int64, 0);
  wire.resize(static_cast<std::size_t>(size));
  comm.broadcast(std::span<std::int64_t>(wire));
  scan.file_bytes = wire[0], scan.modified = wire[1];
  scan.marks.clear();
  for (std::size_t i = 2; i < wire.size(); i += 4)
    scan.marks.push_back({wire[i], wire[i + 1], wire[i + 2], wire[i + 3]});
  return scan;
}

CorpusBlocks::CorpusBlocks(const CorpusScan& scan)
    : scan_(scan), reader_(scan.path, without_duplicates(scan.options)) {
  if (state_of(scan.path) != std::pair(scan.file_bytes, scan.modified)) changed(scan.path);
}

void CorpusBlocks::read(std::int64_t block, std::vector<Document>& documents) {
  const CorpusMark &first = scan_.marks[static_cast<std::size_t>(block)],
                   &last = scan_.marks[static_cast<std::size_t>(block) + 1];
  reader_.seek(first);
  while (reader_.count() < last.document) {
    if (!reader_.next(documents.emplace_back())) changed(scan_.path);
  }
  if (reader_.mark().byte != last.byte) changed(scan_.path);
}

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
