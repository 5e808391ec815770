#include "gpuhpc/eval/rouge.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "gpuhpc/base/random.hpp"

namespace gpuhpc {
namespace {

using Words = std::vector<std::string>;

// Python lowers two letters beyond ASCII to ASCII ones: the Kelvin sign, and i with a dot, whose
// dot is left over as a mark.
Words words_of(std::string_view text) {
  Words words;
  bool open = false;
  const auto put = [&](char c) {
    if (!open) words.emplace_back();
    words.back() += c;
    open = true;
  };
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c >= 'A' && c <= 'Z') {
      put(static_cast<char>(c - 'A' + 'a'));
    } else if ((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9')) {
      put(c);
    } else if (text.substr(i, 3) == "\u212A") {
      put('k'), i += 2;
    } else {
      if (text.substr(i, 2) == "\u0130") put('i');
      open = false;
    }
  }
  return words;
}

RougeScore score(std::size_t shared, std::size_t of_text, std::size_t of_reference) {
  RougeScore s;
  s.precision =
      static_cast<double>(shared) / static_cast<double>(std::max<std::size_t>(of_text, 1));
  s.recall =
      static_cast<double>(shared) / static_cast<double>(std::max<std::size_t>(of_reference, 1));
  if (shared > 0) s.f1 = 2 * s.precision * s.recall / (s.precision + s.recall);
  return s;
}

RougeScore shared_ngrams(const Words& reference, const Words& text, std::size_t n) {
  const auto counts = [&](const Words& words) {
    std::map<Words, std::size_t> found;
    for (std::size_t i = 0; i + n <= words.size(); ++i)
      ++found[Words(words.begin() + static_cast<std::ptrdiff_t>(i),
                    words.begin() + static_cast<std::ptrdiff_t>(i + n))];
    return found;
  };
  const auto of_text = counts(text), of_reference = counts(reference);
  std::size_t shared = 0;
  for (const auto& [ngram, count] : of_reference)
    if (const auto found = of_text.find(ngram); found != of_text.end())
      shared += std::min(count, found->second);
  const auto total = [&](const Words& words) {
    return words.size() >= n ? words.size() - n + 1 : 0;
  };
  return score(shared, total(text), total(reference));
}

// Places in `reference` of one longest common subsequence; which one of several matters to
// ROUGE-Lsum, so the way back is the package's.
std::vector<std::size_t> common(const Words& reference, const Words& text) {
  const std::size_t columns = text.size() + 1;
  std::vector<std::size_t> table((reference.size() + 1) * columns);
  const auto at = [&](std::size_t i, std::size_t j) -> std::size_t& {
    return table[i * columns + j];
  };
  for (std::size_t i = 1; i <= reference.size(); ++i)
    for (std::size_t j = 1; j <= text.size(); ++j)
      at(i, j) = reference[i - 1] == text[j - 1] ? at(i - 1, j - 1) + 1
                                                 : std::max(at(i - 1, j), at(i, j - 1));
  std::vector<std::size_t> places;
  for (std::size_t i = reference.size(), j = text.size(); i > 0 && j > 0;) {
    if (reference[i - 1] == text[j - 1])
      places.push_back(--i), --j;
    else if (at(i, j - 1) > at(i - 1, j))
      --j;
    else
      --i;
  }
  return places;
}

std::vector<Words> lines_of(std::string_view text) {
  std::vector<Words> lines;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    if (end > 0) lines.push_back(words_of(text.substr(0, end)));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

// Each line of the reference against all of the text (Lin 2004, section 3.2), no word counted more
// often than it is there.
RougeScore shared_lines(std::string_view reference, std::string_view text) {
  const std::vector<Words> wanted = lines_of(reference), given = lines_of(text);
  std::map<std::string, std::size_t> left_wanted, left_given;
  std::size_t of_wanted = 0, of_given = 0, hits = 0;
  for (const Words& line : wanted)
    for (const std::string& word : line) ++left_wanted[word], ++of_wanted;
  for (const Words& line : given)
    for (const std::string& word : line) ++left_given[word], ++of_given;
  for (const Words& line : wanted) {
    std::set<std::size_t> places;
    for (const Words& other : given)
      for (const std::size_t place : common(line, other)) places.insert(place);
    for (const std::size_t place : places)
      if (left_given[line[place]] > 0 && left_wanted[line[place]] > 0)
        --left_given[line[place]], --left_wanted[line[place]], ++hits;
  }
  return score(hits, of_given, of_wanted);
}

}  // namespace

Rouge rouge(std::string_view reference, std::string_view text) {
  const Words wanted = words_of(reference), given = words_of(text);
  return {shared_ngrams(wanted, given, 1), shared_ngrams(wanted, given, 2),
          score(common(wanted, given).size(), given.size(), wanted.size()),
          shared_lines(reference, text)};
}

std::array<MeanRouge, 4> mean_rouge(std::span<const Rouge> texts) {
  constexpr std::size_t samples = 1000;
  std::array<MeanRouge, 4> means;
  if (texts.empty()) return means;
  std::array<std::vector<double>, 4> resampled;
  const auto n = static_cast<double>(texts.size());
  const auto add = [](std::array<double, 4>& sums, const Rouge& r) {
    sums[0] += r.rouge1.f1, sums[1] += r.rouge2.f1, sums[2] += r.rouge_l.f1,
        sums[3] += r.rouge_lsum.f1;
  };
  std::array<double, 4> all{};
  for (const Rouge& text : texts) add(all, text);
  for (std::size_t k = 0; k < samples; ++k) {
    RandomStream random(42, k);
    std::array<double, 4> sums{};
    for (std::size_t i = 0; i < texts.size(); ++i) add(sums, texts[random.below(texts.size())]);
    for (std::size_t m = 0; m < 4; ++m) resampled[m].push_back(sums[m] / n);
  }
  for (std::size_t m = 0; m < 4; ++m) {
    std::ranges::sort(resampled[m]);
    means[m] = {all[m] / n, resampled[m][samples / 40], resampled[m][samples - 1 - samples / 40]};
  }
  return means;
}

std::string first_sentence(std::string_view text) {
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\n') return std::string(text.substr(0, i));
    const bool mark = text[i] == '.' || text[i] == '!' || text[i] == '?';
    if (mark && i + 1 < text.size() && (text[i + 1] == ' ' || text[i + 1] == '\n'))
      return std::string(text.substr(0, i + 1));
  }
  return std::string(text);
}

}  // namespace gpuhpc
