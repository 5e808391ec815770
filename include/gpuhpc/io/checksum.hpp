#pragma once
// xxh3: fast, not cryptographic; for damage, not for attackers.
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace gpuhpc {

std::uint64_t xxh3(std::span<const std::byte> bytes);
struct Hash128 {
  std::uint64_t low = 0, high = 0;
  bool operator==(const Hash128&) const = default;
};
Hash128 xxh3_128(std::string_view bytes);
std::string hex64(std::uint64_t value);  // 16 lower-case digits

// 128-bit fingerprint of a stream of pieces. Each piece counts with its length, so ("ab","c")
// differs from ("a","bc").
class Fingerprint {
 public:
  Fingerprint();
  ~Fingerprint();
  Fingerprint(Fingerprint&&) noexcept;
  Fingerprint& operator=(Fingerprint&&) noexcept;
  Fingerprint& add(std::string_view piece);
  Fingerprint& add(std::int64_t value);
  // Without the length: the hex() of parts alone is what `xxh128sum` prints for them together.
  Fingerprint& add_part(std::span<const std::byte> bytes);
  Fingerprint& add_file(const std::filesystem::path& path);  // content, not the name
  std::string hex() const;                                   // 32 lower-case digits

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace gpuhpc
