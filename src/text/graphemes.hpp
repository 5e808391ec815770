#pragma once
// Extended grapheme clusters (Unicode Annex 29) as the unicode-segmentation crate 1.13 cuts them.
// Rule GB9c is left out: clusters of six bytes and more are not looked up (charsmap.hpp), and all
// of its clusters are longer.
#include <cstddef>
#include <string_view>

namespace gpuhpc {

// End of the cluster that begins at `at` in well-formed UTF-8; at < text.size().
std::size_t grapheme_end(std::string_view text, std::size_t at);

}  // namespace gpuhpc
