// Any two texts either make a taxonomy that keeps its promises or are refused with one sentence
// that names the file.
//   taxonomy_fuzz tests/labels/fixtures/taxonomy_seeds
// The input is the labels, a line that holds a single `%`, and the hierarchy.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "gpuhpc/base/error.hpp"
#include "gpuhpc/labels/class_texts.hpp"
#include "gpuhpc/labels/taxonomy.hpp"

namespace {

void require(bool holds) {
  if (!holds) std::abort();
}

void check(const gpuhpc::Taxonomy& t) {
  std::size_t steps = 0, through = 0;
  for (const auto& path : t.paths()) {
    require(t.is_root(path.front()) && t.is_leaf(path.back()));
    steps += path.size();
    for (std::size_t i = 1; i < path.size(); ++i) {
      const auto children = t.children(path[i - 1]);
      require(std::binary_search(children.begin(), children.end(), path[i]));
      require(t.depth(path[i - 1]) < t.depth(path[i]));
    }
  }
  for (gpuhpc::ClassId c = 0; c < t.size(); ++c) {
    through += t.paths_through(c).size();
    require(t.find(t.label(c)) == c);
    require(!std::ranges::count(t.ancestors(c), c));
    for (const gpuhpc::ClassId a : t.ancestors(c))
      require(std::ranges::count(t.descendants(a), c) == 1);
    require(gpuhpc::five_texts(t, c).size() == 5);
  }
  require(steps == through);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const std::size_t cut = input.find("\n%\n");
  const bool flat = cut == std::string_view::npos;
  try {
    check(gpuhpc::Taxonomy::parse(input.substr(0, flat ? input.size() : cut + 1), "labels",
                                  flat ? std::string_view() : input.substr(cut + 3), "hierarchy"));
  } catch (const gpuhpc::Error& error) {
    const std::string_view message = error.what();
    require(error.code() == gpuhpc::ExitCode::bad_data &&
            message.find('\n') == std::string_view::npos);
    require(message.starts_with("labels:") || message.starts_with("hierarchy:") ||
            message.starts_with("taxonomy:"));
  }
  return 0;
}
