#include "gpuhpc/labels/class_texts.hpp"

#include <fmt/format.h>

#include <utility>

#include "gpuhpc/labels/vectors.hpp"

namespace gpuhpc {
namespace {

std::string joined(std::span<const std::string> parts, std::string_view separator) {
  std::string text;
  for (const auto& part : parts) {
    if (!text.empty()) text += separator;
    text += part;
  }
  return text;
}

void add_description(std::span<const std::string> descriptions, ClassId c, ClassTexts& all) {
  const auto i = static_cast<std::size_t>(c);
  if (i >= descriptions.size() || descriptions[i].empty()) return;
  all.texts.push_back(descriptions[i]);
  all.owner.push_back(c);
}

std::span<const std::string> terms_of(std::span<const std::vector<std::string>> terms, ClassId c) {
  const auto i = static_cast<std::size_t>(c);
  if (i >= terms.size()) return {};
  return terms[i];
}

void add_text(std::string text, ClassId c, ClassTexts& all) {
  all.texts.push_back(std::move(text));
  all.owner.push_back(c);
}

}  // namespace

std::string path_text(const Taxonomy& taxonomy, ClassId c) {
  std::vector<std::string> titles;
  for (const ClassId step : taxonomy.first_path(c))
    titles.push_back(class_title(taxonomy.name(step)));
  return joined(titles, " > ");
}

std::vector<std::string> five_texts(const Taxonomy& taxonomy, ClassId c) {
  const std::string name = class_title(taxonomy.name(c));
  const ClassPath path = taxonomy.first_path(c);
  std::string with_parent = name, kind = "this is about " + name;
  if (path.size() > 1) {
    const std::string parent = class_title(taxonomy.name(path[path.size() - 2]));
    with_parent = parent + " " + name;
    kind += ", a kind of " + parent;
    if (path.size() > 2) kind += ", " + class_title(taxonomy.name(path[path.size() - 3]));
  }
  return {name, path_text(taxonomy, c), with_parent, "this is about " + name + ".", kind + "."};
}

std::string keyword_text(const Taxonomy& taxonomy, ClassId c, std::span<const std::string> terms) {
  const std::string path = path_text(taxonomy, c);
  return terms.empty() ? path : path + ": " + joined(terms, ", ");
}

std::string multi_gpu_text(const Taxonomy& taxonomy, ClassId c,
                           std::span<const std::string> terms) {
  const std::string text = "The product category is " + taxonomy.title(c);
  return terms.empty() ? text : text + ", associated with keywords: " + joined(terms, ", ");
}

ClassTexts five_class_texts(const Taxonomy& taxonomy, std::span<const std::string> descriptions) {
  ClassTexts all;
  for (ClassId c = 0; c < taxonomy.size(); ++c) {
    for (auto& text : five_texts(taxonomy, c)) add_text(std::move(text), c, all);
    add_description(descriptions, c, all);
  }
  return all;
}

ClassTexts name_class_texts(const Taxonomy& taxonomy, std::span<const std::string> descriptions) {
  ClassTexts all;
  for (ClassId c = 0; c < taxonomy.size(); ++c) {
    add_text(taxonomy.title(c), c, all);
    add_description(descriptions, c, all);
  }
  return all;
}

ClassTexts keyword_class_texts(const Taxonomy& taxonomy,
                               std::span<const std::vector<std::string>> terms) {
  ClassTexts all;
  for (ClassId c = 0; c < taxonomy.size(); ++c)
    add_text(keyword_text(taxonomy, c, terms_of(terms, c)), c, all);
  return all;
}

ClassTexts multi_gpu_class_texts(const Taxonomy& taxonomy,
                                 std::span<const std::vector<std::string>> terms) {
  ClassTexts all;
  for (ClassId c = 0; c < taxonomy.size(); ++c)
    add_text(multi_gpu_text(taxonomy, c, terms_of(terms, c)), c, all);
  return all;
}

ClassTexts term_class_texts(const Taxonomy& taxonomy,
                            std::span<const std::vector<std::string>> terms) {
  ClassTexts all;
  for (ClassId c = 0; c < taxonomy.size(); ++c) {
    add_text(taxonomy.title(c), c, all);
    for (const auto& term : terms_of(terms, c)) add_text(term, c, all);
  }
  return all;
}

Matrix class_vectors(MatrixView embeddings, std::span<const ClassId> owner, std::int64_t classes) {
  Matrix vectors(classes, embeddings.columns);
  std::vector<double> sum(static_cast<std::size_t>(embeddings.columns));
  for (std::size_t i = 0; i < owner.size();) {
    const ClassId c = owner[i];
    std::fill(sum.begin(), sum.end(), 0.);
    for (; i < owner.size() && owner[i] == c; ++i) {
      const auto row = embeddings.row(static_cast<std::int64_t>(i));
      for (std::size_t j = 0; j < sum.size(); ++j) sum[j] += row[j];
    }
    const auto vector = vectors.row(c);
    for (std::size_t j = 0; j < sum.size(); ++j) vector[j] = static_cast<float>(sum[j]);
    normalise(vector);
  }
  return vectors;
}

Matrix prototype_vectors(MatrixView generated_sums, std::span<const std::int64_t> generated_counts,
                         MatrixView keyword_vectors, double centring) {
  const std::int64_t classes = keyword_vectors.rows, width = keyword_vectors.columns;
  Matrix generated(classes, width), keywords(classes, width), prototypes(classes, width);
  FixedSums generated_mean(1, width), keyword_mean(1, width);
  std::int64_t count = 0;
  for (std::int64_t c = 0; c < classes; ++c) {
    std::copy_n(keyword_vectors.row(c).data(), width, keywords.row(c).data());
    keyword_mean.add_row(0, keywords.row(c));
    if (generated_counts[static_cast<std::size_t>(c)] == 0) continue;
    std::copy_n(generated_sums.row(c).data(), width, generated.row(c).data());
    normalise(generated.row(c));
    generated_mean.add_row(0, generated.row(c));
    ++count;
  }
  centre_rows(keywords.view(), common_part(mean_of(keyword_mean, classes), centring));
  const std::vector<float> common = common_part(mean_of(generated_mean, count), centring);
  for (std::int64_t c = 0; c < classes; ++c) {
    const auto sum = prototypes.row(c);
    std::copy_n(keywords.row(c).data(), width, sum.data());
    if (generated_counts[static_cast<std::size_t>(c)] > 0) {
      const auto row = generated.row(c);
      centre_rows({row.data(), 1, width}, common);
      for (std::size_t j = 0; j < sum.size(); ++j) sum[j] += row[j];
    }
    normalise(sum);
  }
  return prototypes;
}

}  // namespace gpuhpc
