#include "gpuhpc/text/bert_words.hpp"

#include <algorithm>

#include "characters.hpp"

namespace gpuhpc {

using Kind = CharacterRule::Kind;

Kind BertWords::kind_of(char32_t c) const {
  if (is_white_space(c)) return Kind::space;
  return is_punctuation(c) ? Kind::isolated : Kind::text;
}

std::unique_ptr<BertWords::Block> BertWords::make_block(char32_t high) const {
  auto block = std::make_unique<Block>();
  for (char32_t low = 0; low < 256; ++low) (*block)[low] = make_rule(high * 256 + low);
  return block;
}

CharacterRule BertWords::make_rule(char32_t c) const {
  CharacterRule result;
  if (settings_.clean_text) {
    if (is_removed_by_cleaning(c)) return result;
    if (is_white_space(c)) {
      result.kind = Kind::space;
      return result;
    }
  }
  char32_t parts[4] = {c, 0, 0, 0};
  const int count = settings_.strip_accents ? decompose(c, parts) : 1;
  bool mixed = false;
  for (int i = 0; i < count; ++i) {
    if (settings_.strip_accents && is_nonspacing_mark(parts[i])) continue;
    if (settings_.strip_accents && combining_class(parts[i]) != 0) mixed = true;
    char32_t lower[2] = {parts[i], 0};
    const int lower_count = settings_.lowercase ? lower_case(parts[i], lower) : 1;
    for (int k = 0; k < lower_count; ++k) {
      const Kind kind = kind_of(lower[k]);
      if (result.characters != 0 && (kind != Kind::text || result.kind != Kind::text)) mixed = true;
      char utf8[4];
      const int bytes = put_code_point(lower[k], utf8);
      if (result.bytes + static_cast<std::size_t>(bytes) > sizeof(result.utf8)) {
        mixed = true;
        continue;
      }
      std::copy_n(utf8, bytes, result.utf8 + result.bytes);
      result.bytes = static_cast<std::uint8_t>(result.bytes + bytes);
      result.characters++;
      result.kind = kind;
    }
  }
  if (mixed) {
    result.kind = Kind::involved;
  } else if (settings_.handle_chinese_chars && is_ideograph(c)) {
    result.kind = Kind::isolated;
  }
  return result;
}

void BertWords::reordered(std::string_view run) {
  points_.clear();
  for (std::size_t at = 0; at < run.size();) {
    const char32_t c = next_code_point(run, at);
    if (settings_.clean_text && is_removed_by_cleaning(c)) continue;
    const bool spaced = settings_.handle_chinese_chars && is_ideograph(c);
    if (spaced) points_.push_back(U' ');
    points_.push_back(settings_.clean_text && is_white_space(c) ? U' ' : c);
    if (spaced) points_.push_back(U' ');
  }
  if (settings_.strip_accents) strip_accents();
  if (!settings_.lowercase) return;
  decomposed_.swap(points_);
  points_.clear();
  for (const char32_t c : decomposed_) {
    char32_t lower[2];
    points_.insert(points_.end(), lower, lower + lower_case(c, lower));
  }
}

std::string BertWords::normalized(std::string_view text) {
  std::string out;
  reordered(text);
  for (const char32_t c : points_) append_code_point(c, out);
  return out;
}

void BertWords::strip_accents() {
  decompose(points_, decomposed_);
  decomposed_.swap(points_);
  points_.clear();
  std::copy_if(decomposed_.begin(), decomposed_.end(), std::back_inserter(points_),
               [](char32_t c) { return !is_nonspacing_mark(c); });
}

}  // namespace gpuhpc
