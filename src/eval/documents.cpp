#include "gpuhpc/eval/documents.hpp"

#include <algorithm>
#include <charconv>

namespace gpuhpc {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }

}  // namespace

std::optional<std::int32_t> ClassWords::find(std::string_view word) const {
  if (!word.empty() && std::all_of(word.begin(), word.end(), is_digit)) {
    std::int32_t id = 0;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), id);
    if (error != std::errc{} || id >= taxonomy_->size()) return std::nullopt;
    return id;
  }
  return taxonomy_->find(word);
}

std::string ClassWords::word(std::int32_t class_id) const {
  const std::string& name = taxonomy_->label(class_id);
  const bool clear = !name.empty() && name.find_first_of(",\"") == std::string::npos &&
                     name.front() != ' ' && name.back() != ' ';
  if (clear && find(name) == class_id) return name;
  return std::to_string(class_id);
}

}  // namespace gpuhpc
