#pragma once
// The members of an aggregate, without a list of them that could be forgotten: a stage's struct
// says what it reads, and its fingerprint is made of exactly that (pipelines/stage.hpp).
#include <cstddef>
#include <tuple>
#include <utility>

namespace gpuhpc {
namespace fields_detail {

struct Anything {
  template <class T>
  operator T() const;
};

template <class T, std::size_t... I>
constexpr bool takes(std::index_sequence<I...>) {
  return requires { T{((void)I, Anything{})...}; };
}

// From above: a member without a default constructor wants its initializer.
template <class T, std::size_t N = 13>
constexpr std::size_t count() {
  if constexpr (N == 0 || takes<T>(std::make_index_sequence<N>{}))
    return N;
  else
    return count<T, N - 1>();
}

}  // namespace fields_detail

// References to the members of `s`, in order: an aggregate of 1 to 12 members without base classes.
template <class S>
auto fields_of(const S& s) {
  constexpr std::size_t members = fields_detail::count<S>();
  static_assert(members >= 1 && members <= 12, "fields_of() knows structs of 1 to 12 members");
  if constexpr (members == 1) {
    const auto& [a] = s;
    return std::tie(a);
  } else if constexpr (members == 2) {
    const auto& [a, b] = s;
    return std::tie(a, b);
  } else if constexpr (members == 3) {
    const auto& [a, b, c] = s;
    return std::tie(a, b, c);
  } else if constexpr (members == 4) {
    const auto& [a, b, c, d] = s;
    return std::tie(a, b, c, d);
  } else if constexpr (members == 5) {
    const auto& [a, b, c, d, e] = s;
    return std::tie(a, b, c, d, e);
  } else if constexpr (members == 6) {
    const auto& [a, b, c, d, e, f] = s;
    return std::tie(a, b, c, d, e, f);
  } else if constexpr (members == 7) {
    const auto& [a, b, c, d, e, f, g] = s;
    return std::tie(a, b, c, d, e, f, g);
  } else if constexpr (members == 8) {
    const auto& [a, b, c, d, e, f, g, h] = s;
    return std::tie(a, b, c, d, e, f, g, h);
  } else if constexpr (members == 9) {
    const auto& [a, b, c, d, e, f, g, h, i] = s;
    return std::tie(a, b, c, d, e, f, g, h, i);
  } else if constexpr (members == 10) {
    const auto& [a, b, c, d, e, f, g, h, i, j] = s;
    return std::tie(a, b, c, d, e, f, g, h, i, j);
  } else if constexpr (members == 11) {
    const auto& [a, b, c, d, e, f, g, h, i, j, k] = s;
    return std::tie(a, b, c, d, e, f, g, h, i, j, k);
  } else if constexpr (members == 12) {
    const auto& [a, b, c, d, e, f, g, h, i, j, k, l] = s;
    return std::tie(a, b, c, d, e, f, g, h, i, j, k, l);
  }
}

}  // namespace gpuhpc
