#pragma once
// The random numbers of dropout, for any level: included inside an anonymous namespace, after the
// target pragma.

// Widynski's Squares, five rounds: 64 random bits of a counter.
inline std::uint64_t squares(std::uint64_t counter, std::uint64_t key) {
  const auto turned = [](std::uint64_t x) { return x >> 32 | x << 32; };
  const std::uint64_t y = counter * key, z = y + key;
  std::uint64_t x = turned(y * y + y);
  x = turned(x * x + z);
  x = turned(x * x + y);
  const std::uint64_t t = x * x + z;
  x = turned(t);
  return t ^ (x * x + y) >> 32;
}

// Bit i: whether element i of 32, the first of them counter `counter`'s, is kept.
inline std::uint32_t kept_bits(const Dropout& dropout, std::uint64_t counter) {
  std::uint32_t bits = 0;
  for (std::uint32_t i = 0; i < 32; i += 4) {
    const std::uint64_t random = squares(counter + i / 4, dropout.key);
    for (std::uint32_t j = 0; j < 4; ++j)
      bits |= static_cast<std::uint32_t>((random >> 16 * j & 0xffff) >= dropout.threshold)
              << (i + j);
  }
  return bits;
}
