// tokenizer_bench MODEL_FOLDER RECORDS IDS [PASSES]: encodes length-prefixed texts (uint32 bytes,
// text), writes uint32 count and int32 ids for each, then encodes them again PASSES times on one
// thread and prints the speeds as JSON. bench/peers/wordpiece.py and tokenizer_ids.py compare the
// ids with Hugging Face's before it shows a speed.
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

void write_ids(const gpuhpc::Tokenizer& tokenizer, const std::vector<std::string_view>& texts,
               const char* path) {
  std::ofstream out(path, std::ios::binary);
  std::vector<std::int32_t> ids;
  for (const auto text : texts) {
    ids.clear();
    tokenizer.encode(text, ids);
    const auto count = static_cast<std::uint32_t>(ids.size());
    out.write(reinterpret_cast<const char*>(&count), 4);
    out.write(reinterpret_cast<const char*>(ids.data()),
              static_cast<std::streamsize>(4 * ids.size()));
  }
  out.close();
  if (!out) throw std::runtime_error(fmt::format("cannot write {}", path));
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
  write_ids(*tokenizer, texts, arguments[3]);
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
    fmt::print(stderr, "usage: tokenizer_bench MODEL_FOLDER RECORDS IDS [PASSES]\n");
    return 2;
  }
  try {
    return run(count, arguments);
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
}
