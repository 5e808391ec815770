#include "gpuhpc/labels/lexical.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>

#include "gpuhpc/base/error.hpp"

namespace gpuhpc {
namespace {

constexpr std::array<std::string_view, 13> stop_words{
    "and", "or", "of", "the", "for", "with", "a", "an", "in", "on", "to", "other", "general"};

struct Ending {
  std::string_view from, to;
};
constexpr std::array<Ending, 6> endings{
    {{"ies", "y"}, {"es", ""}, {"s", ""}, {"ing", ""}, {"ion", ""}, {"ed", ""}}};

bool is_word_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'); }

// Calls `take(stem)` for every token; `token` is scratch space.
template <typename Take>
void for_each_token(std::string_view text, std::string& token, Take take) {
  const auto finish = [&] {
    if (token.size() > 1 &&
        std::find(stop_words.begin(), stop_words.end(), token) == stop_words.end())
      take(crude_stem(token));
    token.clear();
  };
  token.clear();
  for (char c : text) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    if (is_word_letter(c))
      token += c;
    else if (!token.empty())
      finish();
  }
  if (!token.empty()) finish();
}

}  // namespace

std::string crude_stem(std::string_view token) {
  for (const auto& [from, to] : endings)
    if (token.ends_with(from) && token.size() - from.size() + to.size() >= 3) {
      token.remove_suffix(from.size());
      return std::string(token) + std::string(to);
    }
  return std::string(token);
}

std::vector<std::string> lexical_tokens(std::string_view text) {
  std::vector<std::string> tokens;
  std::string scratch;
  for_each_token(text, scratch, [&](std::string stem) { tokens.push_back(std::move(stem)); });
  return tokens;
}

LexicalEvidence::LexicalEvidence(const Taxonomy& taxonomy) {
  std::map<ClassId, std::int32_t> place;
  for (const ClassId leaf : taxonomy.leaves()) {
    place[leaf] = static_cast<std::int32_t>(leaf_terms_.size());
    std::vector<std::int32_t> terms;
    for (const auto& token : lexical_tokens(taxonomy.title(leaf)))
      terms.push_back(
          term_of_.try_emplace(token, static_cast<std::int32_t>(term_of_.size())).first->second);
    std::sort(terms.begin(), terms.end());
    terms.erase(std::unique(terms.begin(), terms.end()), terms.end());
    leaf_terms_.push_back(std::move(terms));
  }
  for (const auto& path : taxonomy.paths()) leaf_of_path_.push_back(place.at(path.back()));
  leaves_of_term_.resize(term_of_.size());
  for (std::size_t leaf = 0; leaf < leaf_terms_.size(); ++leaf)
    for (const auto term : leaf_terms_[leaf])
      leaves_of_term_[static_cast<std::size_t>(term)].push_back(static_cast<std::int32_t>(leaf));
  idf_.assign(term_of_.size(), 1.f);
  weigh();
}

void LexicalEvidence::weigh() {
  total_.assign(leaf_terms_.size(), 0.);
  for (std::size_t leaf = 0; leaf < leaf_terms_.size(); ++leaf)
    for (const auto term : leaf_terms_[leaf]) total_[leaf] += idf_[static_cast<std::size_t>(term)];
}

std::vector<std::int32_t> LexicalEvidence::present(std::string_view text) const {
  std::vector<std::int32_t> terms;
  std::string scratch;
  for_each_token(text, scratch, [&](const std::string& stem) {
    const auto found = term_of_.find(stem);
    if (found != term_of_.end()) terms.push_back(found->second);
  });
  std::sort(terms.begin(), terms.end());
  terms.erase(std::unique(terms.begin(), terms.end()), terms.end());
  return terms;
}

void LexicalEvidence::count(std::string_view text, std::span<std::int64_t> frequencies) const {
  for (const auto term : present(text)) ++frequencies[static_cast<std::size_t>(term)];
}

void LexicalEvidence::set_frequencies(std::span<const std::int64_t> frequencies,
                                      std::int64_t documents) {
  for (std::size_t t = 0; t < idf_.size(); ++t)
    idf_[t] = static_cast<float>(
        std::log(static_cast<double>(documents + 1) / static_cast<double>(frequencies[t] + 1)) +
        .1);
  weigh();
}

void LexicalEvidence::set_idf(std::span<const float> idf) {
  if (idf.size() != idf_.size())
    throw input_error(
        "the stored model weighs {} class-name words but the taxonomy has {}; use the taxonomy "
        "that the model was made with",
        idf.size(), idf_.size());
  idf_.assign(idf.begin(), idf.end());
  weigh();
}

void LexicalEvidence::evidence(std::string_view text, std::span<float> evidence) const {
  std::vector<double> found(leaf_terms_.size());
  for (const auto term : present(text))
    for (const auto leaf : leaves_of_term_[static_cast<std::size_t>(term)])
      found[static_cast<std::size_t>(leaf)] += idf_[static_cast<std::size_t>(term)];
  for (std::size_t k = 0; k < leaf_of_path_.size(); ++k) {
    const auto leaf = static_cast<std::size_t>(leaf_of_path_[k]);
    evidence[k] = total_[leaf] > 0 ? static_cast<float>(found[leaf] / total_[leaf]) : 0.f;
  }
}

void LexicalEvidence::add(std::span<const std::string> texts, double weight,
                          MutableMatrixView logits) const {
  std::vector<float> values(leaf_of_path_.size());
  const auto scale = static_cast<float>(weight);
  for (std::size_t i = 0; i < texts.size(); ++i) {
    evidence(texts[i], values);
    const auto row = logits.row(static_cast<std::int64_t>(i));
    for (std::size_t k = 0; k < values.size(); ++k) row[k] += scale * values[k];
  }
}

}  // namespace gpuhpc
