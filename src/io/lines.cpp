#include "gpuhpc/io/lines.hpp"

#include <fcntl.h>
#include <unistd.h>
#include <zlib.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <vector>

#include "gpuhpc/io/atomic_file.hpp"

namespace gpuhpc {
namespace {

constexpr std::size_t input_bytes = std::size_t{1} << 16;

}  // namespace

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
      if (got >= 0) return static_cast<std::size_t>(got);
      if (errno != EINTR) throw system_error("read", name, errno);
    }
  }

  void start() {
    started = true;
    input.resize(input_bytes);
    std::size_t got = read_some(input.data(), input.size());
    while (got == 1) {  // a pipe may give a single byte; two are needed to know gzip
      const std::size_t more = read_some(input.data() + 1, input.size() - 1);
      if (more == 0) break;
      got += more;
    }
    if (got >= 2 && input[0] == '\x1f' && input[1] == '\x8b') {
      stream.next_in = reinterpret_cast<Bytef*>(input.data());
      stream.avail_in = static_cast<uInt>(got);
      if (::inflateInit2(&stream, 15 + 16) != Z_OK)
        throw io_error("cannot read {}: zlib could not start", name);
      inflating = true;
      fill();
    } else {
      buffer.assign(input.data(), got);
      input.clear();
      at_end = got == 0;
    }
    if (buffer.starts_with("\xEF\xBB\xBF")) begin = 3;
  }

  // Appends more text to `buffer`; sets at_end when there is no more.
  void fill() {
    buffer.erase(0, begin);
    scanned -= std::min(scanned, begin);
    begin = 0;
    if (inflating) {
      inflate_some();
      return;
    }
    const std::size_t used = buffer.size();
    buffer.resize(used + input_bytes);
    const std::size_t got = read_some(buffer.data() + used, input_bytes);
    buffer.resize(used + got);
    at_end = got == 0;
  }

  void inflate_some() {
    std::array<char, input_bytes> out;
    stream.next_out = reinterpret_cast<Bytef*>(out.data());
    stream.avail_out = static_cast<uInt>(out.size());
    while (stream.avail_out == out.size()) {
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
    buffer.append(out.data(), out.size() - stream.avail_out);
  }

  Error damaged(const char* how) const {
    return input_error("{}:{}: the compressed file {}; copy or compress it again", name,
                       line_number + 1, how);
  }

  bool next(std::string_view& line) {
    if (!started) start();
    for (;;) {
      const std::size_t end = buffer.find('\n', std::max(begin, scanned));
      if (end != std::string::npos) return give(line, end, end + 1);
      scanned = buffer.size();
      if (static_cast<std::int64_t>(buffer.size() - begin) > options.max_line_bytes) {
        throw input_error("{}:{}: the line is longer than {} bytes; is this a text file?", name,
                          line_number + 1, options.max_line_bytes);
      }
      if (at_end) break;
      fill();
    }
    if (begin == buffer.size()) return false;
    return give(line, buffer.size(), buffer.size());
  }

  bool give(std::string_view& line, std::size_t end, std::size_t next_begin) {
    line = std::string_view(buffer).substr(begin, end - begin);
    if (line.ends_with('\r')) line.remove_suffix(1);
    begin = next_begin;
    ++line_number;
    if (options.check_utf8) {
      const std::size_t bad = find_invalid_utf8(line);
      if (bad != std::string_view::npos) {
        throw input_error(
            "{}:{}: byte {} (0x{:02x}) is not UTF-8; convert the file: iconv -f LATIN1 -t UTF-8",
            name, line_number, bad + 1, static_cast<unsigned char>(line[bad]));
      }
    }
    return true;
  }

  std::filesystem::path path;
  LineReaderOptions options;
  std::string name, input, buffer;
  std::size_t begin = 0,
              scanned = 0;  // the next line begins at `begin`; no line end before `scanned`
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

std::int64_t LineReader::line_number() const { return state_->line_number; }
std::string LineReader::where() const {
  return fmt::format("{}:{}", state_->name, state_->line_number);
}
const std::filesystem::path& LineReader::path() const { return state_->path; }

}  // namespace gpuhpc
