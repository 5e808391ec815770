#include "decoder.hpp"

#include <algorithm>
#include <charconv>

#include "gpuhpc/base/error.hpp"
#include "gpuhpc/base/utf8.hpp"

namespace gpuhpc {
namespace {

using Tokens = std::vector<std::string>;

std::string replaced(std::string_view text, std::string from, std::string to) {
  std::string out;
  replace_text(text, {ReplaceText::Pattern::literal, std::move(from), std::move(to)}, out);
  return out;
}

void apply(const JoinPieces& pieces, Tokens& tokens) {
  constexpr const char* cleanups[][2] = {
      {" .", "."},   {" ?", "?"},     {" !", "!"},     {" ,", ","},
      {" ' ", "'"},  {" n't", "n't"}, {" 'm", "'m"},   {" do not", " don't"},
      {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"},
  };
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    std::string& token = tokens[i];
    if (i != 0 && token.starts_with(pieces.prefix)) {
      token.erase(0, pieces.prefix.size());
    } else if (i != 0) {
      token.insert(0, 1, ' ');
    }
    if (!pieces.cleanup) continue;
    for (const auto& [from, to] : cleanups) {
      if (token.find(from) != std::string::npos) token = replaced(token, from, to);
    }
  }
}

constexpr auto byte_of_character = [] {
  std::array<short, 0x200> bytes{};
  bytes.fill(-1);
  for (std::size_t byte = 0; byte < 256; ++byte)
    bytes[byte_characters[byte]] = static_cast<short>(byte);
  return bytes;
}();

void apply(const JoinBytes&, Tokens& tokens) {
  std::string bytes, text;
  for (const std::string& token : tokens) {
    const std::size_t before = bytes.size();
    for (std::size_t at = 0; at < token.size();) {
      const char32_t c = next_code_point(token, at);
      const short byte = c < byte_of_character.size() ? byte_of_character[c] : short{-1};
      if (byte < 0) {  // not of the byte alphabet: an added token, which stands as it is
        bytes.replace(before, std::string::npos, token);
        break;
      }
      bytes.push_back(static_cast<char>(byte));
    }
  }
  append_valid_utf8(bytes, text);
  tokens.clear();
  tokens.push_back(std::move(text));
}

void apply(const JoinSpaced& spaced, Tokens& tokens) {
  for (std::size_t i = 0; i < tokens.size(); ++i)
    tokens[i] = replaced(tokens[i], spaced.spacer, i == 0 && spaced.drop_first ? "" : " ");
}

void apply(const JoinByteTokens&, Tokens& tokens) {
  Tokens joined;
  std::string bytes;
  const auto close = [&] {
    if (bytes.empty()) return;
    if (find_invalid_utf8(bytes) == std::string::npos)
      joined.push_back(bytes);
    else
      joined.insert(joined.end(), bytes.size(), "\uFFFD");
    bytes.clear();
  };
  for (std::string& token : tokens) {
    unsigned char byte = 0;
    const auto is_hexadecimal = [&](const char* digits) {
      return std::from_chars(digits, digits + 2, byte, 16).ptr == digits + 2;
    };
    const bool is_byte = token.size() == 6 && token.starts_with("<0x") && token.back() == '>' &&
                         is_hexadecimal(token.data() + 3);
    if (is_byte) {
      bytes.push_back(static_cast<char>(byte));
      continue;
    }
    close();
    joined.push_back(std::move(token));
  }
  close();
  tokens = std::move(joined);
}

void apply(const FuseTokens&, Tokens& tokens) {
  std::string all;
  for (const std::string& token : tokens) all += token;
  tokens.clear();
  tokens.push_back(std::move(all));
}

void apply(const StripCharacter& strip, Tokens& tokens) {
  for (std::string& token : tokens) {
    std::string_view rest = token;
    for (std::size_t i = 0; i < strip.start && rest.starts_with(strip.character); ++i)
      rest.remove_prefix(strip.character.size());
    for (std::size_t i = 0; i < strip.stop && rest.ends_with(strip.character); ++i)
      rest.remove_suffix(strip.character.size());
    token = std::string(rest);
  }
}

void apply(const ReplaceText& rule, Tokens& tokens) {
  for (std::string& token : tokens) {
    std::string out;
    replace_text(token, rule, out);
    token = std::move(out);
  }
}

}  // namespace

std::string TokenDecoder::text_of(std::vector<std::string> tokens) const {
  const auto bytes = [&] {
    std::size_t sum = 0;
    for (const std::string& token : tokens) sum += token.size();
    return sum;
  };
  const std::size_t before = bytes();
  for (const auto& step : steps) {
    std::visit([&](const auto& s) { apply(s, tokens); }, step);
    if (bytes() > before * most_growth + 4096)
      throw input_error("the tokenizer's decoder makes {} bytes of {}; use another model", bytes(),
                        before);
  }
  std::string text;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    if (!given && i != 0) text += ' ';
    text += tokens[i];
  }
  return text;
}

}  // namespace gpuhpc
