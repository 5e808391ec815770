#pragma once
// Files and lists of classes as people write them.
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "gpuhpc/eval/documents.hpp"

namespace gpuhpc {

std::string_view trimmed(std::string_view text);

// Each line `id<TAB>classes` of a file with its place, FILE:LINE; blank lines are passed over.
// input_error for a line without a tab or an id.
void for_each_label_row(const std::filesystem::path& path,
                        const std::function<void(const std::string& where, std::string id,
                                                 std::string_view classes)>& take);

// The classes of "c1,c2,c3" in their order; an empty text has none. `where` is FILE:LINE. With
// `refuse_repeats` a class that stands twice is an input_error; else it counts once.
std::vector<std::int32_t> parse_label_list(std::string_view text, const ClassWords& words,
                                           const std::string& where, bool refuse_repeats);
// One word of such a list; throws input_error for an unknown class.
std::int32_t parse_label(std::string_view word, const ClassWords& words, const std::string& where);

}  // namespace gpuhpc
