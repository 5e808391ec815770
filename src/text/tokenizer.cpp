#include "gpuhpc/text/tokenizer.hpp"

#include <algorithm>

#include "gpuhpc/base/error.hpp"

namespace gpuhpc {

void Tokenizer::encode_with(TokenizerScratch&, std::string_view text, std::vector<std::int32_t>& ids) const { encode(text, ids); }

std::unique_ptr<TokenizerScratch> Tokenizer::make_scratch() const { return std::make_unique<TokenizerScratch>(); }

std::span<const std::int32_t> truncated(std::span<const std::int32_t> ids, std::int64_t max_length) {
  if (max_length < 2) throw configuration_error("a length limit of {} has no room for [CLS] and [SEP]; give at least 3", max_length);
  return ids.first(std::min(ids.size(), static_cast<std::size_t>(max_length - 2)));
}

std::vector<std::int32_t> with_specials(const Tokenizer& tokenizer, std::span<const std::int32_t> ids, std::int64_t max_length) {
  const auto kept = truncated(ids, max_length);
  std::vector<std::int32_t> result;
  result.reserve(kept.size() + 2);
  result.push_back(tokenizer.cls_id());
  result.insert(result.end(), kept.begin(), kept.end());
  result.push_back(tokenizer.sep_id());
  return result;
}

}  // namespace gpuhpc
