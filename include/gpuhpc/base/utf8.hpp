#pragma once
// UTF-8 as RFC 3629 has it: no surrogates, nothing overlong, at most U+10FFFF.
#include <cstddef>
#include <string>
#include <string_view>

namespace gpuhpc {

constexpr char32_t replacement_character = 0xFFFD;

// The code point at text[position], which moves on. Ill-formed bytes give U+FFFD once per maximal
// subpart (Unicode 3.9, table 3-8).
char32_t next_code_point(std::string_view text, std::size_t& position);
// Writes 1 to 4 bytes.
int put_code_point(char32_t c, char* out);
void append_code_point(char32_t c, std::string& out);

// Position of the first byte that is not well-formed UTF-8, or npos.
std::size_t find_invalid_utf8(std::string_view text);
// Appends `text` with U+FFFD for what is ill-formed, as Python's errors="replace" decodes it.
void append_valid_utf8(std::string_view text, std::string& out);

}  // namespace gpuhpc
