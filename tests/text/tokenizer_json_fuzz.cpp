// tokenizer.json as an attacker writes it, then text as an attacker writes it: up to the first NUL
// byte the input is the file, the rest is encoded. Seeds: tests/text/fixtures/fuzz
// (data_tools/fixtures/make_tokenizer_seeds.py).
#include <algorithm>
#include <cstdlib>

#include "gpuhpc/base/error.hpp"
#include "gpuhpc/base/utf8.hpp"
#include "gpuhpc/text/tokenizer.hpp"

namespace {

void check(bool holds) {
  if (!holds) std::abort();
}

void encode_all_ways(const gpuhpc::Tokenizer& tokenizer, std::string_view text) {
  std::vector<std::int32_t> ids, again, own;
  tokenizer.encode(text, ids);
  tokenizer.encode(text, again);  // now from the cache
  const auto scratch = tokenizer.make_scratch();
  tokenizer.encode_with(*scratch, text, own);
  check(ids == again && ids == own);
  check(std::all_of(ids.begin(), ids.end(),
                    [&](std::int32_t id) { return id >= 0 && id < tokenizer.vocabulary_size(); }));
  check(tokenizer.fingerprint().size() == 32);
  const gpuhpc::PairTemplate& form = tokenizer.special().pair;
  const gpuhpc::TokenPair pair =
      gpuhpc::paired(form, ids, ids, 2 * std::ssize(ids) + form.specials() + 1);
  check(pair.ids.size() == pair.segments.size() && pair.ids.size() >= 2 * ids.size());
  check(gpuhpc::find_invalid_utf8(tokenizer.decode(ids, false)) == std::string::npos);
  check(gpuhpc::find_invalid_utf8(tokenizer.decode(pair.ids, true)) == std::string::npos);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const std::size_t cut = std::min(input.find('\0'), size);
  try {
    const auto tokenizer = gpuhpc::parse_tokenizer_json(input.substr(0, cut), "tokenizer.json");
    encode_all_ways(*tokenizer, input.substr(std::min(cut + 1, size)));
    encode_all_ways(*tokenizer, input);  // the file as text: full of its own tokens
  } catch (const gpuhpc::Error& error) {
    check(error.code() == gpuhpc::ExitCode::bad_data);
  }
  return 0;
}
