#pragma once
// The two sides of a pair that a cross-encoder holds against each other: a document as premise,
// "this example is {class}." as hypothesis.
#include <string>
#include <vector>

#include "gpuhpc/labels/taxonomy.hpp"

namespace gpuhpc {

std::string as_premise(std::string text);  // lower case (ASCII), as the published code does
std::string statement(const std::string& form,
                      const std::string& words);  // the words in the place of {}
std::vector<std::string> class_statements(const Taxonomy& taxonomy, const std::string& form);

}  // namespace gpuhpc
