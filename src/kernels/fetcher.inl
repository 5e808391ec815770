#pragma once
// Included inside the anonymous namespace of an instruction-set file, after its target pragma.

// Weights wanted next, fetched into the second-level cache evenly over the steps of a product:
// while it computes, memory would be idle.
struct Fetcher {
  const std::byte* at;
  const std::byte* end;
  std::int64_t each;
  Fetcher(const Prefetch& next, std::int64_t steps)
      : at(next.from),
        end(next.from + next.bytes),
        each(steps > 0 ? round_up((next.bytes + steps - 1) / steps, 64) : 0) {}
  void step() {
    for (const std::byte* stop = end - at < each ? end : at + each; at < stop; at += 64)
      __builtin_prefetch(at, 0, 2);
  }
};
