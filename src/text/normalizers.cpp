#include "normalizers.hpp"

#include <algorithm>
#include <cstring>

#include "characters.hpp"
#include "gpuhpc/base/error.hpp"
#include "gpuhpc/io/checksum.hpp"

namespace gpuhpc {
namespace {

template <typename... F>
struct Overloaded : F... {
  using F::operator()...;
};
template <typename... F>
Overloaded(F...) -> Overloaded<F...>;

// Where the white space that begins at `at` ends, and how many characters it has.
struct SpaceRun {
  std::size_t end, characters;
};
SpaceRun space_run(std::string_view text, std::size_t at) {
  SpaceRun run{at, 0};
  while (run.end < text.size()) {
    std::size_t next = run.end;
    if (!is_white_space(next_code_point(text, next))) break;
    run = {next, run.characters + 1};
  }
  return run;
}

std::string_view stripped(std::string_view text, const StripSpaces& sides) {
  if (sides.left) text.remove_prefix(space_run(text, 0).end);
  while (sides.right && !text.empty()) {
    std::size_t before = text.size() - 1;
    while (before > 0 && (static_cast<unsigned char>(text[before]) & 0xC0) == 0x80) --before;
    std::size_t at = before;
    if (!is_white_space(next_code_point(text, at))) break;
    text.remove_suffix(text.size() - before);
  }
  return text;
}

void replace_literal(std::string_view text, const ReplaceText& rule, std::string& out) {
  std::size_t at = 0;
  for (std::size_t found; (found = text.find(rule.text, at)) != std::string_view::npos;
       at = found + rule.text.size()) {
    out.append(text.substr(at, found - at)).append(rule.content);
  }
  out.append(text.substr(at));
}

void replace_spaces(std::string_view text, const ReplaceText& rule, std::string& out) {
  std::size_t at = 0;
  for (std::size_t found; (found = text.find("  ", at)) != std::string_view::npos;) {
    out.append(text.substr(at, found - at)).append(rule.content);
    at = std::min(text.find_first_not_of(' ', found), text.size());
  }
  out.append(text.substr(at));
}

void replace_white_space(std::string_view text, const ReplaceText& rule, std::string& out) {
  std::size_t copied = 0, at = 0;
  while (at < text.size()) {
    const auto byte = static_cast<unsigned char>(text[at]);
    const auto next = at + 1 < text.size() ? static_cast<unsigned char>(text[at + 1]) : 0u;
    if ((byte > 0x20 && byte < 0x80) || (byte == ' ' && next > 0x20 && next < 0x80)) {
      ++at;
      continue;
    }
    const SpaceRun run = space_run(text, at);
    if (run.characters == 0) {
      next_code_point(text, at);
      continue;
    }
    if (run.characters > 1 || byte == '\n' || byte == '\r' || byte == '\t') {
      out.append(text.substr(copied, at - copied)).append(rule.content);
      copied = run.end;
    }
    at = run.end;
  }
  out.append(text.substr(copied));
}

void compose_text(std::string_view text, TextNormalizer::Buffers& buffers) {
  buffers.points.clear();
  for (std::size_t at = 0; at < text.size();) buffers.points.push_back(next_code_point(text, at));
  decompose(buffers.points, buffers.more_points);
  compose(buffers.points);
  for (const char32_t c : buffers.points) append_code_point(c, buffers.next);
}

void lowercase(std::string_view text, std::string& out) {
  for (std::size_t at = 0; at < text.size();) {
    char32_t lower[2];
    const int count = lower_case(next_code_point(text, at), lower);
    for (int i = 0; i < count; ++i) append_code_point(lower[i], out);
  }
}

// Below U+0300 every text is its own NFC; lead bytes from 0xCC on begin what lies above.
bool may_change_in_nfc(std::string_view text) {
  return std::any_of(text.begin(), text.end(),
                     [](char c) { return static_cast<unsigned char>(c) >= 0xCC; });
}

}  // namespace

void replace_text(std::string_view text, const ReplaceText& rule, std::string& out) {
  switch (rule.pattern) {
    case ReplaceText::Pattern::literal:
      return replace_literal(text, rule, out);
    case ReplaceText::Pattern::spaces:
      return replace_spaces(text, rule, out);
    case ReplaceText::Pattern::white_space:
      return replace_white_space(text, rule, out);
  }
}

std::string_view TextNormalizer::apply(std::string_view text, Buffers& buffers) const {
  const std::size_t limit = text.size() * most_growth + 4096;
  const auto keep = [&] {  // the new text becomes the current one
    if (buffers.next.size() > limit)
      throw input_error("the tokenizer's normalizer makes {} bytes of {}; use another model",
                        buffers.next.size(), text.size());
    buffers.text.swap(buffers.next);
    text = buffers.text;
  };
  for (const auto& step : steps_) {
    buffers.next.clear();
    std::visit(
        Overloaded{[&](const StripSpaces& sides) { text = stripped(text, sides); },
                   [&](const ComposeText&) {
                     if (!may_change_in_nfc(text)) return;
                     compose_text(text, buffers);
                     keep();
                   },
                   [&](const LowercaseText&) { lowercase(text, buffers.next), keep(); },
                   [&](const ReplaceText& rule) { replace_text(text, rule, buffers.next), keep(); },
                   [&](const std::shared_ptr<const Charsmap>& map) {
                     map->apply(text, buffers.next), keep();
                   }},
        step);
  }
  return text;
}

std::string TextNormalizer::fingerprint() const {
  Fingerprint print;
  for (const auto& step : steps_) {
    print.add(static_cast<std::int64_t>(step.index()));
    std::visit(
        Overloaded{
            [&](const StripSpaces& sides) {
              print.add(std::int64_t{sides.left * 2 + sides.right});
            },
            [](const ComposeText&) {}, [](const LowercaseText&) {},
            [&](const ReplaceText& rule) {
              print.add(static_cast<std::int64_t>(rule.pattern)).add(rule.text).add(rule.content);
            },
            [&](const std::shared_ptr<const Charsmap>& map) { print.add(map->fingerprint()); }},
        step);
  }
  return print.hex();
}

namespace {

// A unit of the double array: bits 0-7 label, 8 has a leaf, 9 widens the offset, 10-30 offset; bit
// 31 marks a leaf, its rest the value.
constexpr std::uint32_t label(std::uint32_t unit) { return unit & (0x80000000u | 0xFF); }
constexpr bool has_leaf(std::uint32_t unit) { return ((unit >> 8) & 1) != 0; }
constexpr std::uint64_t offset(std::uint32_t unit) {
  return std::uint64_t{unit >> 10} << ((unit & (1u << 9)) >> 6);
}
constexpr std::uint32_t value(std::uint32_t unit) { return unit & 0x7FFFFFFFu; }

}  // namespace

Charsmap::Charsmap(std::string_view bytes, const std::string& where) {
  std::uint32_t trie_bytes = 0;
  if (bytes.size() >= 4) std::memcpy(&trie_bytes, bytes.data(), 4);
  const std::size_t units = trie_bytes / 4;
  if (units == 0 || units * 4 > bytes.size() - 4)
    throw input_error("{}: the charsmap is cut off; take the file of the model again", where);
  units_.resize(units);
  std::memcpy(units_.data(), bytes.data() + 4, units * 4);
  replacements_ = bytes.substr(4 + units * 4);
  if (find_invalid_utf8(replacements_) != std::string_view::npos) {
    throw input_error(
        "{}: the replacements of the charsmap are not UTF-8; take the file of the model again",
        where);
  }
  for (std::size_t c = 0; c < ascii_.size(); ++c) {
    const char character = static_cast<char>(c);
    ascii_[c] = find({&character, 1});
  }
  fingerprint_ = Fingerprint().add(bytes).hex();
}

// The shortest prefix of `part` with a rule. Whatever the file holds, no place outside of it is
// read.
std::optional<std::string_view> Charsmap::find(std::string_view part) const {
  std::uint64_t node = offset(units_[0]);
  for (const char character : part) {
    const auto byte = static_cast<unsigned char>(character);
    node ^= byte;
    if (byte == 0 || node >= units_.size()) return std::nullopt;
    const std::uint32_t unit = units_[node];
    if (label(unit) != byte) return std::nullopt;
    node ^= offset(unit);
    if (node >= units_.size()) return std::nullopt;
    if (!has_leaf(unit)) continue;
    const std::size_t begin = value(units_[node]);
    const bool inside = begin < replacements_.size() &&
                        (static_cast<unsigned char>(replacements_[begin]) & 0xC0) != 0x80;
    if (!inside) return std::nullopt;
    return std::string_view(replacements_)
        .substr(begin, std::min(replacements_.find('\0', begin), replacements_.size()) - begin);
  }
  return std::nullopt;
}

void Charsmap::apply(std::string_view text, std::string& out) const {
  constexpr std::size_t longest_cluster = 5;
  const auto is_ascii = [&](std::size_t i) { return static_cast<unsigned char>(text[i]) < 0x80; };
  std::size_t at = 0;
  while (at < text.size()) {
    if (is_ascii(at) && (at + 1 == text.size() ||
                         (is_ascii(at + 1) && text[at] != '\r'))) {  // a cluster of its own
      const auto& rule = ascii_[static_cast<unsigned char>(text[at])];
      if (rule) {
        out.append(*rule);
      } else {
        out.push_back(text[at]);
      }
      ++at;
      continue;
    }
    const std::size_t end = grapheme_end(text, at);
    if (end - at <= longest_cluster) {
      if (const auto rule = find(text.substr(at, end - at))) {
        out.append(*rule);
        at = end;
        continue;
      }
    }
    while (at < end) {
      std::size_t next = at;
      next_code_point(text, next);
      const std::string_view character = text.substr(at, next - at);
      out.append(find(character).value_or(character));
      at = next;
    }
  }
}

std::string decode_base64(std::string_view text, const std::string& where) {
  std::string out;
  std::uint32_t bits = 0;
  int count = 0;
  const std::size_t end = text.ends_with("==")  ? text.size() - 2
                          : text.ends_with('=') ? text.size() - 1
                                                : text.size();
  for (const char c : text.substr(0, end)) {
    const int digit = c >= 'A' && c <= 'Z'   ? c - 'A'
                      : c >= 'a' && c <= 'z' ? c - 'a' + 26
                      : c >= '0' && c <= '9' ? c - '0' + 52
                      : c == '+'             ? 62
                      : c == '/'             ? 63
                                             : -1;
    if (digit < 0)
      throw input_error("{}: the charsmap is not base64; take the file of the model again", where);
    bits = (bits << 6) | static_cast<std::uint32_t>(digit);
    count += 6;
    if (count >= 8) {
      count -= 8;
      out.push_back(static_cast<char>((bits >> count) & 0xFF));
    }
  }
  return out;
}

}  // namespace gpuhpc
