#include "gpuhpc/data/batches.hpp"

#include <algorithm>
#include <numeric>

#include "gpuhpc/base/error.hpp"

namespace gpuhpc {

LongDocuments long_documents(const std::string& word) {
  if (word == "truncate") return LongDocuments::truncate;
  if (word == "mean") return LongDocuments::mean;
  throw usage_error("`{}` is not one of truncate, mean", word);
}

std::int64_t window_count(std::int64_t tokens, std::int64_t content, LongDocuments mode) {
  if (content < 1) throw internal_error("windows with room for {} tokens hold nothing", content);
  return mode == LongDocuments::truncate
             ? 1
             : std::max<std::int64_t>(1, (tokens + content - 1) / content);
}

std::vector<std::span<const std::int32_t>> windows(std::span<const std::int32_t> tokens,
                                                   std::int64_t content, LongDocuments mode) {
  const auto longest = static_cast<std::size_t>(content);
  std::vector<std::span<const std::int32_t>> all;
  for (std::int64_t i = 0; i < window_count(std::ssize(tokens), content, mode); ++i) {
    const std::size_t first = static_cast<std::size_t>(i) * longest;
    all.push_back(tokens.subspan(first, std::min(longest, tokens.size() - first)));
  }
  return all;
}

void PackedIds::clear() {
  token_ids.clear();
  segments.clear();
  documents.clear();
  offsets.assign(1, 0);
}

void PackedIds::reserve(std::int64_t tokens, std::int64_t items) {
  token_ids.reserve(static_cast<std::size_t>(tokens));
  documents.reserve(static_cast<std::size_t>(items));
  offsets.reserve(static_cast<std::size_t>(items) + 1);
}

void PackedIds::add(std::int64_t item, std::span<const std::int32_t> tokens,
                    const TextTemplate& form) {
  token_ids.insert(token_ids.end(), form.before.begin(), form.before.end());
  token_ids.insert(token_ids.end(), tokens.begin(), tokens.end());
  token_ids.insert(token_ids.end(), form.after.begin(), form.after.end());
  close(item);
}

void PackedIds::add_pair(std::int64_t item, std::span<const std::int32_t> tokens,
                         std::span<const std::int32_t> token_segments) {
  token_ids.insert(token_ids.end(), tokens.begin(), tokens.end());
  segments.insert(segments.end(), token_segments.begin(), token_segments.end());
  close(item);
}

void PackedIds::close(std::int64_t item) {
  offsets.push_back(static_cast<std::int32_t>(token_ids.size()));
  documents.push_back(item);
}

}  // namespace gpuhpc
