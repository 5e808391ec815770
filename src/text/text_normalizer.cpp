#include "text_normalizer.hpp"

#include <algorithm>

#include "characters.hpp"
#include "gpuhpc/base/error.hpp"
#include "gpuhpc/io/checksum.hpp"

namespace gpuhpc {
namespace {

constexpr std::size_t most_growth =
    64;  // times; one character becomes eleven times its bytes at most in Unicode's own rules

template <typename... F>
struct Overloaded : F... {
  using F::operator()...;
};

void put(char32_t c, std::string& out) {
  char utf8[4];
  out.append(utf8, static_cast<std::size_t>(put_code_point(c, utf8)));
}

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
  for (const char32_t c : buffers.points) put(c, buffers.next);
}

void lowercase(std::string_view text, std::string& out) {
  for (std::size_t at = 0; at < text.size();) {
    char32_t lower[2];
    const int count = lower_case(next_code_point(text, at), lower);
    for (int i = 0; i < count; ++i) put(lower[i], out);
  }
}

// Below U+0300 every text is its own NFC; lead bytes from 0xCC on begin what lies above.
bool may_change_in_nfc(std::string_view text) {
  return std::any_of(text.begin(), text.end(),
                     [](char c) { return static_cast<unsigned char>(c) >= 0xCC; });
}

}  // namespace

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
    std::visit(Overloaded{[&](const StripSpaces& sides) { text = stripped(text, sides); },
                          [&](const ComposeText&) {
                            if (!may_change_in_nfc(text)) return;
                            compose_text(text, buffers);
                            keep();
                          },
                          [&](const LowercaseText&) { lowercase(text, buffers.next), keep(); },
                          [&](const ReplaceText& rule) {
                            using Pattern = ReplaceText::Pattern;
                            if (rule.pattern == Pattern::literal)
                              replace_literal(text, rule, buffers.next);
                            if (rule.pattern == Pattern::spaces)
                              replace_spaces(text, rule, buffers.next);
                            if (rule.pattern == Pattern::white_space)
                              replace_white_space(text, rule, buffers.next);
                            keep();
                          },
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

}  // namespace gpuhpc
