#include "gpuhpc/text/tokenizer.hpp"

#include <algorithm>

#include "gpuhpc/base/error.hpp"

namespace gpuhpc {

void Tokenizer::encode_with(TokenizerScratch&, std::string_view text,
                            std::vector<std::int32_t>& ids) const {
  encode(text, ids);
}

std::unique_ptr<TokenizerScratch> Tokenizer::make_scratch() const {
  return std::make_unique<TokenizerScratch>();
}

std::span<const std::int32_t> truncated(std::span<const std::int32_t> ids,
                                        std::int64_t max_length) {
  if (max_length < 2)
    throw configuration_error(
        "a length limit of {} has no room for [CLS] and [SEP]; give at least 3", max_length);
  return ids.first(std::min(ids.size(), static_cast<std::size_t>(max_length - 2)));
}

std::vector<std::int32_t> with_specials(const Tokenizer& tokenizer,
                                        std::span<const std::int32_t> ids,
                                        std::int64_t max_length) {
  const auto kept = truncated(ids, max_length);
  std::vector<std::int32_t> result;
  result.reserve(kept.size() + 2);
  if (tokenizer.cls_id() >= 0) result.push_back(tokenizer.cls_id());
  result.insert(result.end(), kept.begin(), kept.end());
  if (tokenizer.sep_id() >= 0) result.push_back(tokenizer.sep_id());
  return result;
}

PairTemplate Tokenizer::pair_template() const {
  return {{{cls_id(), 0}}, {{sep_id(), 0}}, {{sep_id(), 1}}, 0, 1};
}

std::vector<std::int32_t> ids_of(const Tokenizer& tokenizer, std::string_view text) {
  std::vector<std::int32_t> ids;
  tokenizer.encode(text, ids);
  return ids;
}

TokenPair paired(const PairTemplate& pair, std::span<const std::int32_t> first,
                 std::span<const std::int32_t> second, std::int64_t max_length) {
  const std::int64_t room = max_length - pair.specials() - std::ssize(second);
  if (room < 1) {
    throw configuration_error(
        "a length limit of {} has no room for a second text of {} tokens with {} special tokens; "
        "raise it",
        max_length, second.size(), pair.specials());
  }
  TokenPair result;
  const auto add_specials = [&](const std::vector<PairTemplate::Special>& specials) {
    for (const auto& [id, segment] : specials)
      result.ids.push_back(id), result.segments.push_back(segment);
  };
  const auto add_text = [&](std::span<const std::int32_t> ids, std::int32_t segment) {
    result.ids.insert(result.ids.end(), ids.begin(), ids.end());
    result.segments.resize(result.ids.size(), segment);
  };
  add_specials(pair.before);
  add_text(first.first(std::min(first.size(), static_cast<std::size_t>(room))), pair.first_segment);
  add_specials(pair.between);
  add_text(second, pair.second_segment);
  add_specials(pair.after);
  return result;
}

}  // namespace gpuhpc
