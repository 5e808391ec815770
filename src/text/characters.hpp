#pragma once
// Character properties as Hugging Face tokenizers 0.23 sees them. Its Rust crates carry three
// Unicode versions: categories 8.0, normalisation 9.0, letter case 17.0; ICU knows newer
// characters, so what is younger than a crate counts as unassigned here.
// tests/text/unicode_test.cpp compares every code point.
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "gpuhpc/base/utf8.hpp"

namespace gpuhpc {

bool is_removed_by_cleaning(char32_t c);  // NUL, U+FFFD, control, format, private use
bool is_white_space(char32_t c);
bool is_punctuation(char32_t c);
bool is_ideograph(char32_t c);  // what BERT calls a Chinese character
bool is_nonspacing_mark(char32_t c);
int combining_class(char32_t c);
bool is_normalization_known(char32_t c);  // assigned in the Unicode version of the normalisation

// Full canonical decomposition; returns how many code points were written (1: `c` itself), at
// most 4.
int decompose(char32_t c, char32_t (&out)[4]);
// Canonical decomposition and reordering of a whole text; canonical composition (NFC) of what that
// left.
void decompose(std::vector<char32_t>& points, std::vector<char32_t>& buffer);
void compose(std::vector<char32_t>& points);
// Lower case without context; 1 or 2 code points.
int lower_case(char32_t c, char32_t (&out)[2]);

// \w of the regex crate.
bool is_word_character(char32_t c);
// What Oniguruma's \p{L}, \p{N} and \s say of a character.
enum class PatternKind : unsigned char { other, letter, number, space };
PatternKind pattern_kind(char32_t c);

// End of the extended grapheme cluster (Unicode Annex 29) that begins at `at` in well-formed UTF-8,
// as the unicode-segmentation crate 1.13 cuts them; at < text.size(). Rule GB9c is left out:
// clusters of six bytes and more are not looked up (normalizers.hpp), and all of its clusters are
// longer.
std::size_t grapheme_end(std::string_view text, std::size_t at);

}  // namespace gpuhpc
