#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "gpuhpc/eval/documents.hpp"

namespace gpuhpc::detail {

std::string_view trimmed(std::string_view text);

// The classes of "c1,c2,c3" in their order; an empty text has none. `where` is FILE:LINE. With
// `refuse_repeats` a class that stands twice is an input_error; else it counts once.
std::vector<std::int32_t> parse_label_list(std::string_view text, const ClassWords& words,
                                           const std::string& where, bool refuse_repeats);
// One word of such a list; throws input_error for an unknown class.
std::int32_t parse_label(std::string_view word, const ClassWords& words, const std::string& where);

}  // namespace gpuhpc::detail
