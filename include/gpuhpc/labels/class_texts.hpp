#pragma once
// Texts that stand for a class when an encoder reads it, and the vector made of their embeddings.
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gpuhpc/base/matrix.hpp"
#include "gpuhpc/labels/taxonomy.hpp"

namespace gpuhpc {

// Texts of all classes in one list, ready for the encoder: text i belongs to class owner[i]; owners
// ascend.
struct ClassTexts {
  std::vector<std::string> texts;
  std::vector<ClassId> owner;
};

// "{root} > .. > {name}" along the first root path.
std::string path_text(const Taxonomy& taxonomy, ClassId c);
// Five texts per class (quality recipe, step 1): name; path; "{parent} {name}"; "this is about
// {name}."; "this is about {name}, a kind of {parent}, {grandparent}."; a root has its name for
// what needs a parent.
std::vector<std::string> five_texts(const Taxonomy& taxonomy, ClassId c);
// "{root} > .. > {name}: kw1, kw2, ..."; without terms the path alone.
std::string keyword_text(const Taxonomy& taxonomy, ClassId c, std::span<const std::string> terms);
// "The product category is {name}, associated with keywords: {kw, ...}" (multi-GPU TELEClass).
std::string multi_gpu_text(const Taxonomy& taxonomy, ClassId c, std::span<const std::string> terms);

// `descriptions` (one a class, "" = none; or empty) are added verbatim as a further text.
ClassTexts five_class_texts(const Taxonomy& taxonomy,
                            std::span<const std::string> descriptions = {});
ClassTexts name_class_texts(const Taxonomy& taxonomy,
                            std::span<const std::string> descriptions = {});
ClassTexts keyword_class_texts(const Taxonomy& taxonomy,
                               std::span<const std::vector<std::string>> terms);
ClassTexts multi_gpu_class_texts(const Taxonomy& taxonomy,
                                 std::span<const std::vector<std::string>> terms);
// The title and every term, each a text of its own (TELEClass 2: similarity is the best over
// terms).
ClassTexts term_class_texts(const Taxonomy& taxonomy,
                            std::span<const std::vector<std::string>> terms);

// (classes, width): row c = unit(sum of the unit embeddings of its texts). embeddings: (texts,
// width).
Matrix class_vectors(MatrixView embeddings, std::span<const ClassId> owner, std::int64_t classes);

// Prototypes with generated documents (quality recipe, step 1): row c = unit(centred(unit(mean of
// c's generated documents)) + centred(keyword text)), centred(v) = unit(v - a share of the mean
// over the classes that have one). A class without a generated document (count 0) keeps its keyword
// text alone. Both matrices (classes, width).
Matrix prototype_vectors(MatrixView generated_sums, std::span<const std::int64_t> generated_counts,
                         MatrixView keyword_vectors, double centring);

}  // namespace gpuhpc
