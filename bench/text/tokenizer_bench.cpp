// tokenizer_bench MODEL_FOLDER RECORDS IDS [PASSES [DECODED]]: encodes length-prefixed texts
// (uint32 bytes, text), writes uint32 count and int32 ids for each, then encodes them again PASSES
// times on one thread and prints the speeds as JSON. DECODED takes two texts for each: its ids
// decoded with special tokens and without. bench/peers/wordpiece.py and tokenizer_ids.py compare
// both with Hugging Face's before they show a speed.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <ctime>
#include <exception>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include "gpuhpc/io/atomic_file.hpp"
#include "gpuhpc/text/tokenizer.hpp"

namespace {

std::vector<std::string_view> split_records(const std::string& file) {
  std::vector<std::string_view> records;
  for (std::size_t at = 0; at + 4 <= file.size();) {
    std::uint32_t bytes;
    std::memcpy(&bytes, file.data() + at, 4);
    records.push_back(std::string_view(file).substr(at + 4, bytes));
    at += 4 + bytes;
  }
  return records;
}

// Records: a count, then as many ids or bytes.
class RecordFile {
 public:
  explicit RecordFile(const char* path) : path_(path), out_(path, std::ios::binary) {}
  template <typename Items>
  void write(const Items& items) {
    const auto count = static_cast<std::uint32_t>(items.size());
    out_.write(reinterpret_cast<const char*>(&count), 4);
    out_.write(reinterpret_cast<const char*>(items.data()),
               static_cast<std::streamsize>(sizeof(items[0]) * items.size()));
  }
  void close() {
    out_.close();
    if (!out_) throw std::runtime_error(fmt::format("cannot write {}", path_));
  }

 private:
  std::string path_;
  std::ofstream out_;
};

void write_answers(const gpuhpc::Tokenizer& tokenizer, const std::vector<std::string_view>& texts,
                   const char* ids_path, const char* decoded_path) {
  RecordFile ids_file(ids_path), decoded(decoded_path == nullptr ? "/dev/null" : decoded_path);
  std::vector<std::int32_t> ids;
  for (const auto text : texts) {
    ids.clear();
    tokenizer.encode(text, ids);
    ids_file.write(ids);
    if (decoded_path == nullptr) continue;
    for (const bool skip : {false, true}) decoded.write(tokenizer.decode(ids, skip));
  }
  ids_file.close();
  decoded.close();
}

// Seconds this thread has computed: the speed of a core, whatever else the machine does.
double thread_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

struct Pass {
  double seconds;
  std::size_t tokens;
};

// A fresh scratch each time: the first words of the corpus are met with an empty cache.
template <typename Encode>
Pass timed(const std::vector<std::string_view>& texts, Encode&& encode) {
  std::vector<std::int32_t> ids;
  std::size_t tokens = 0;
  const double start = thread_seconds();
  for (const auto text : texts) {
    ids.clear();
    encode(text, ids);
    tokens += ids.size();
  }
  return {thread_seconds() - start, tokens};
}

int run(int count, char** arguments) {
  const auto tokenizer = gpuhpc::load_tokenizer(arguments[1]);
  const std::string file = gpuhpc::read_text_file(arguments[2]);
  const auto texts = split_records(file);
  write_answers(*tokenizer, texts, arguments[3], count > 5 ? arguments[5] : nullptr);
  const int passes = count > 4 ? std::stoi(arguments[4]) : 5;
  std::size_t bytes = 0, tokens = 0;
  for (const auto text : texts) bytes += text.size();
  std::vector<double> with_scratch, convenience;
  for (int i = 0; i < passes; ++i) {
    const auto scratch = tokenizer->make_scratch();
    const Pass own = timed(texts, [&](std::string_view text, std::vector<std::int32_t>& ids) {
      tokenizer->encode_with(*scratch, text, ids);
    });
    with_scratch.push_back(own.seconds);
    convenience.push_back(timed(texts, [&](std::string_view text, std::vector<std::int32_t>& ids) {
                            tokenizer->encode(text, ids);
                          }).seconds);
    tokens = own.tokens;
  }
  std::sort(with_scratch.begin(), with_scratch.end());
  std::sort(convenience.begin(), convenience.end());
  const double megabytes = static_cast<double>(bytes) / 1e6;
  const auto middle = static_cast<std::size_t>(passes / 2);
  fmt::print(
      "{{\"texts\": {}, \"bytes\": {}, \"tokens\": {}, \"median_mb_s\": {:.1f}, \"best_mb_s\": "
      "{:.1f}, \"encode_median_mb_s\": {:.1f}}}\n",
      texts.size(), bytes, tokens, megabytes / with_scratch[middle], megabytes / with_scratch[0],
      megabytes / convenience[middle]);
  return 0;
}

}  // namespace

int main(int count, char** arguments) {
  if (count < 4) {
    fmt::print(stderr, "usage: tokenizer_bench MODEL_FOLDER RECORDS IDS [PASSES [DECODED]]\n");
    return 2;
  }
  try {
    return run(count, arguments);
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
}
