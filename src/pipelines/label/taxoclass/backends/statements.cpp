#include "gpuhpc/pipelines/label/taxoclass/backends/statements.hpp"

namespace gpuhpc {

std::string as_premise(std::string text) {
  for (char& c : text) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return text;
}

std::string statement(const std::string& form, const std::string& words) {
  std::string text = form;
  return text.replace(text.find("{}"), 2, words);
}

std::vector<std::string> class_statements(const Taxonomy& taxonomy, const std::string& form) {
  std::vector<std::string> statements;
  for (ClassId c = 0; c < taxonomy.size(); ++c)
    statements.push_back(statement(form, taxonomy.title(c)));
  return statements;
}

}  // namespace gpuhpc
