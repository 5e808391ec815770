#include "gpuhpc/io/checksum.hpp"

#include <xxhash.h>

#include "gpuhpc/base/error.hpp"
#include "gpuhpc/io/mapped_file.hpp"

namespace gpuhpc {

std::uint64_t xxh3(std::span<const std::byte> bytes) {
  return XXH3_64bits(bytes.data(), bytes.size());
}

Hash128 xxh3_128(std::string_view bytes) {
  const XXH128_hash_t hash = XXH3_128bits(bytes.data(), bytes.size());
  return {hash.low64, hash.high64};
}

std::string hex64(std::uint64_t value) { return fmt::format("{:016x}", value); }

struct Fingerprint::State {
  State() { XXH3_128bits_reset(stream); }
  ~State() { XXH3_freeState(stream); }
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  void add(const void* bytes, std::size_t size) {
    const std::uint64_t length = size;
    XXH3_128bits_update(stream, &length, sizeof length);
    XXH3_128bits_update(stream, bytes, size);
  }
  XXH3_state_t* stream = XXH3_createState();
};

Fingerprint::Fingerprint() : state_(std::make_unique<State>()) {}
Fingerprint::~Fingerprint() = default;
Fingerprint::Fingerprint(Fingerprint&&) noexcept = default;
Fingerprint& Fingerprint::operator=(Fingerprint&&) noexcept = default;

Fingerprint& Fingerprint::add(std::string_view piece) {
  state_->add(piece.data(), piece.size());
  return *this;
}

Fingerprint& Fingerprint::add(std::int64_t value) {
  state_->add(&value, sizeof value);
  return *this;
}

Fingerprint& Fingerprint::add_part(std::span<const std::byte> bytes) {
  XXH3_128bits_update(state_->stream, bytes.data(), bytes.size());
  return *this;
}

Fingerprint& Fingerprint::add_file(const std::filesystem::path& path) {
  const MappedFile file(path, MappedFile::Access::sequential);
  state_->add(file.bytes().data(), file.bytes().size());
  return *this;
}

std::string Fingerprint::hex() const {
  const XXH128_hash_t digest = XXH3_128bits_digest(state_->stream);
  return fmt::format("{:016x}{:016x}", digest.high64, digest.low64);
}

}  // namespace gpuhpc
