#include "gpuhpc/labels/pseudo_documents.hpp"

#include <algorithm>

namespace gpuhpc {
namespace {

// `count` different ones in the order in which they are drawn.
std::vector<std::string> draw(std::span<const std::string> from, std::int64_t count,
                              RandomStream& random) {
  std::vector<std::string> pool(from.begin(), from.end());
  random.shuffle(pool);
  if (std::ssize(pool) > count) pool.resize(static_cast<std::size_t>(count));
  return pool;
}

std::string_view trimmed(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\r\n") - first + 1);
}

}  // namespace

std::vector<std::string> split_sentences(std::string_view text, std::size_t minimum) {
  std::vector<std::string> sentences;
  const auto take = [&](std::string_view piece) {
    piece = trimmed(piece);
    if (piece.empty()) return;
    if (!sentences.empty() && (piece.size() < minimum || sentences.back().size() < minimum)) {
      sentences.back() += ' ';
      sentences.back() += piece;
    } else {
      sentences.emplace_back(piece);
    }
  };
  std::size_t first = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    const bool stop = (c == '.' || c == '!' || c == '?') && i + 1 < text.size() &&
                      (text[i + 1] == ' ' || text[i + 1] == '\t');
    if (!stop && c != '\n') continue;
    take(text.substr(first, i + 1 - first));
    first = i + 1;
  }
  take(text.substr(first));
  return sentences;
}

std::vector<std::string> build_pseudo_documents(const Taxonomy& taxonomy, const ClassPath& path,
                                                std::span<const std::string> terms,
                                                std::span<const std::string> nearest_sentences,
                                                const PseudoDocumentOptions& options,
                                                RandomStream& random) {
  std::vector<std::string> documents;
  for (std::int64_t i = 0; i < options.documents; ++i) {
    std::string text = taxonomy.title(path.back()) + ".";
    for (const auto& sentence : draw(nearest_sentences, options.sentences, random))
      text += " " + sentence;
    const std::vector<std::string> words = draw(terms, options.terms, random);
    for (std::size_t w = 0; w < words.size(); ++w) text += (w == 0 ? " " : ", ") + words[w];
    if (!words.empty()) text += ".";
    documents.push_back(std::move(text));
  }
  return documents;
}

std::vector<ClassId> starved_classes(std::span<const std::int64_t> document_counts,
                                     std::int64_t minimum) {
  std::vector<ClassId> starved;
  for (std::size_t c = 0; c < document_counts.size(); ++c)
    if (document_counts[c] < minimum) starved.push_back(static_cast<ClassId>(c));
  return starved;
}

}  // namespace gpuhpc
