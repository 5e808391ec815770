#include "gpuhpc/io/lines.hpp"

#include <fcntl.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <span>
#include <sstream>

#include "gpuhpc/io/atomic_file.hpp"
#include "gpuhpc/io/checksum.hpp"

namespace gpuhpc {
namespace {

constexpr std::size_t input_bytes = std::size_t{1} << 16;  // less than malloc maps by itself

}  // namespace

// UTF-16 shows by its byte-order mark, or by the zero bytes of its ASCII letters.
void check_text(std::string_view line, const std::string& name, std::int64_t number) {
  const std::size_t zero = line.find('\0'), bad = find_invalid_utf8(line);
  if (zero == line.npos && bad == line.npos) return;
  if (zero != line.npos || line.starts_with("\xFF\xFE") || line.starts_with("\xFE\xFF"))
    throw input_error(
        "{}:{}: this is UTF-16 or no text at all; convert the file (iconv -f UTF-16 -t UTF-8), or "
        "remove its zero bytes",
        name, number);
  throw input_error(
      "{}:{}: byte {} (0x{:02x}) is not UTF-8; find out what the file is written in and convert "
      "it: iconv -f ENCODING -t UTF-8",
      name, number, bad + 1, static_cast<unsigned char>(line[bad]));
}

// Bytes come from `descriptor` into `input`, through zlib when the first two say gzip, into
// `buffer`; lines are cut there.
struct LineReader::State {
  State(const std::filesystem::path& file, LineReaderOptions chosen) : path(file), options(chosen) {
    if (path == "-") {
      descriptor = STDIN_FILENO;
      name = "standard input";
    } else {
      descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
      if (descriptor < 0) throw system_error("open", path, errno);
      name = path.string();
    }
  }
  ~State() {
    if (inflating) ::inflateEnd(&stream);
    if (descriptor > STDIN_FILENO) ::close(descriptor);
  }
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  std::size_t read_some(char* to, std::size_t size) {
    for (;;) {
      const ssize_t got = ::read(descriptor, to, size);
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) throw system_error("read", name, errno);
      if (options.content != nullptr)
        options.content->add_part(std::as_bytes(std::span(to, static_cast<std::size_t>(got))));
      return static_cast<std::size_t>(got);
    }
  }

  void start() {
    started = true;
    make_room();
    end = read_some(buffer.get(), input_bytes);
    while (end == 1) {  // a pipe may give a single byte; two are needed to know gzip
      const std::size_t more = read_some(buffer.get() + 1, input_bytes - 1);
      if (more == 0) break;
      end += more;
    }
    at_end = end == 0;
    if (end >= 2 && buffer[0] == '\x1f' && buffer[1] == '\x8b') {
      input.resize(input_bytes);
      std::memcpy(input.data(), buffer.get(), end);
      stream.next_in = reinterpret_cast<Bytef*>(input.data());
      stream.avail_in = static_cast<uInt>(end);
      end = 0;
      if (::inflateInit2(&stream, 15 + 16) != Z_OK)
        throw io_error("cannot read {}: zlib could not start", name);
      inflating = true;
      fill();
    }
    if (std::string_view(buffer.get(), end).starts_with("\xEF\xBB\xBF")) begin = 3;
  }

  // Space for `input_bytes` more behind `end`; what lies before `begin` is let go.
  void make_room() {
    if (end + input_bytes <= capacity && begin == 0) return;
    const std::size_t used = end - begin;
    char* from = buffer.get() + begin;
    if (used + input_bytes > capacity) {
      capacity = std::max(2 * capacity, used + input_bytes);
      std::unique_ptr<char[]> larger(new char[capacity]);  // not initialised
      if (used > 0) std::memcpy(larger.get(), from, used);
      buffer.swap(larger);
    } else {
      std::memmove(buffer.get(), from, used);
    }
    before += static_cast<std::int64_t>(begin);
    scanned -= std::min(scanned, begin);
    begin = 0;
    end = used;
  }

  // Appends more text to the buffer; sets at_end when there is no more.
  void fill() {
    make_room();
    if (inflating) {
      inflate_some();
      return;
    }
    const std::size_t got = read_some(buffer.get() + end, input_bytes);
    end += got;
    at_end = got == 0;
  }

  void inflate_some() {
    stream.next_out = reinterpret_cast<Bytef*>(buffer.get() + end);
    stream.avail_out = input_bytes;
    while (stream.avail_out == input_bytes) {
      if (stream.avail_in == 0) {
        stream.next_in = reinterpret_cast<Bytef*>(input.data());
        stream.avail_in = static_cast<uInt>(read_some(input.data(), input.size()));
        if (stream.avail_in == 0) {
          if (!member_done) throw damaged("ends early");
          at_end = true;
          break;
        }
      }
      if (member_done) {  // files may be several gzip members one behind the other
        if (::inflateReset(&stream) != Z_OK) throw damaged("is damaged");
        member_done = false;
      }
      const int result = ::inflate(&stream, Z_NO_FLUSH);
      if (result == Z_STREAM_END) {
        member_done = true;
      } else if (result != Z_OK && result != Z_BUF_ERROR) {
        throw damaged("is damaged");
      }
    }
    end += input_bytes - stream.avail_out;
  }

  Error damaged(const char* how) const {
    return input_error("{}:{}: the compressed file {}; copy or compress it again", name,
                       line_number + 1, how);
  }

  bool next(std::string_view& line) {
    if (!started) start();
    for (;;) {
      const std::size_t from = std::max(begin, scanned);
      const void* found = from < end ? std::memchr(buffer.get() + from, '\n', end - from) : nullptr;
      if (found != nullptr) {
        const auto at = static_cast<std::size_t>(static_cast<const char*>(found) - buffer.get());
        return give(line, at, at + 1);
      }
      scanned = end;
      if (static_cast<std::int64_t>(end - begin) > options.max_line_bytes) {
        throw input_error("{}:{}: the line is longer than {} bytes; is this a text file?", name,
                          line_number + 1, options.max_line_bytes);
      }
      if (at_end) break;
      fill();
    }
    if (begin == end) return false;
    return give(line, end, end);
  }

  bool give(std::string_view& line, std::size_t line_end, std::size_t next_begin) {
    line = std::string_view(buffer.get() + begin, line_end - begin);
    if (line.ends_with('\r')) line.remove_suffix(1);
    begin = next_begin;
    ++line_number;
    if (options.check_utf8) check_text(line, name, line_number);
    return true;
  }

  std::int64_t position() const { return before + static_cast<std::int64_t>(begin); }

  void seek(std::int64_t to, std::int64_t line) {
    if (!started) start();
    const auto buffered = [&] { return before + static_cast<std::int64_t>(end); };
    if (to > buffered() && !inflating) {
      if (::lseek(descriptor, to, SEEK_SET) < 0) throw system_error("read", name, errno);
      before = to;
      begin = end = scanned = 0;
      at_end = false;
    }
    while (to > buffered() && !at_end) {
      begin = end;
      fill();
    }
    if (to < position() || to > buffered())
      throw internal_error("{}: byte {} cannot be reached from byte {}", name, to, position());
    begin = static_cast<std::size_t>(to - before);
    line_number = line;
  }

  std::filesystem::path path;
  LineReaderOptions options;
  std::string name, input;
  std::unique_ptr<char[]> buffer;
  std::size_t capacity = 0;
  std::size_t begin = 0, end = 0,
              scanned = 0;  // the next line begins at `begin`; no line end before `scanned`
  std::int64_t before = 0;  // bytes of the text that came before the buffer
  std::int64_t line_number = 0;
  int descriptor = -1;
  bool started = false, at_end = false, inflating = false, member_done = false;
  z_stream stream{};
};

LineReader::LineReader(const std::filesystem::path& path, LineReaderOptions options)
    : state_(std::make_unique<State>(path, options)) {}
LineReader::~LineReader() = default;
LineReader::LineReader(LineReader&&) noexcept = default;
LineReader& LineReader::operator=(LineReader&&) noexcept = default;

bool LineReader::next(std::string_view& line) { return state_->next(line); }

bool LineReader::next(std::string& line) {
  std::string_view view;
  if (!state_->next(view)) return false;
  line.assign(view);
  return true;
}

bool LineReader::peek(std::string_view& line) {
  if (!state_->started) state_->start();
  const std::int64_t position = state_->position();
  const bool found = state_->next(line);
  state_->begin = static_cast<std::size_t>(position - state_->before);
  if (found) --state_->line_number;
  return found;
}

std::int64_t LineReader::line_number() const { return state_->line_number; }
std::string LineReader::where() const { return where(state_->line_number); }
std::string LineReader::where(std::int64_t line) const {
  return line > 0 ? fmt::format("{}:{}", state_->name, line) : state_->name;
}
std::int64_t LineReader::position() const { return state_->position(); }
void LineReader::seek(std::int64_t position, std::int64_t line) { state_->seek(position, line); }
const std::filesystem::path& LineReader::path() const { return state_->path; }

std::string read_lines(const std::filesystem::path& path, std::int64_t max_bytes) {
  LineReader lines(path, {.max_line_bytes = max_bytes});
  std::string text;
  for (std::string_view line; lines.next(line);) {
    if (std::ssize(text) + std::ssize(line) >= max_bytes)
      throw input_error("{}: the text is longer than {} MiB; is it the right file?", path.string(),
                        max_bytes >> 20);
    text.append(line).push_back('\n');
  }
  return text;
}

std::vector<std::vector<std::string>> read_table(const std::filesystem::path& tsv) {
  std::vector<std::vector<std::string>> rows;
  LineReader lines(tsv);
  for (std::string line; lines.next(line);) {
    if (line.empty()) continue;
    std::istringstream fields(line);
    rows.emplace_back();
    for (std::string field; std::getline(fields, field, '\t');) rows.back().push_back(field);
  }
  return rows;
}

}  // namespace gpuhpc
