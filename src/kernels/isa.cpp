#include "gpuhpc/kernels/isa.hpp"

#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <utility>

#include "gpuhpc/base/error.hpp"

namespace gpuhpc::kernels {
namespace {

constexpr std::array<std::pair<Isa, std::string_view>, 5> kNames{{{Isa::generic, "generic"},
                                                                  {Isa::avx2, "avx2"},
                                                                  {Isa::avx512, "avx512"},
                                                                  {Isa::avx512_bf16, "avx512-bf16"},
                                                                  {Isa::amx, "amx"}}};

std::atomic<Isa> highest_allowed = Isa::amx;

bool has_amx() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d) == 0) return false;
  const bool tile = (d >> 24 & 1U) != 0, bf16 = (d >> 22 & 1U) != 0, int8 = (d >> 25 & 1U) != 0;
  if (!tile || !bf16 || !int8) return false;
  constexpr long kRequestPermission = 0x1023,
                 kTileData = 18;  // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}

bool detect(Isa isa) {
  __builtin_cpu_init();
  switch (isa) {
    case Isa::generic:
      return true;
    case Isa::avx2:
      return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    case Isa::avx512:
      return detect(Isa::avx2) && __builtin_cpu_supports("avx512f") &&
             __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
             __builtin_cpu_supports("avx512vl");
    case Isa::avx512_bf16:
      return detect(Isa::avx512) && __builtin_cpu_supports("avx512bf16") &&
             __builtin_cpu_supports("avx512vnni");
    case Isa::amx:
      return detect(Isa::avx512_bf16) && has_amx();
  }
  return false;
}

}  // namespace

std::string_view to_string(Isa isa) { return kNames[static_cast<std::size_t>(isa)].second; }

Isa parse_isa(std::string_view name) {
  for (const auto& [isa, word] : kNames)
    if (word == name) return isa;
  throw usage_error("`{}` is no instruction set; use generic, avx2, avx512, avx512-bf16 or amx",
                    name);
}

bool supported(Isa isa) {
  if (isa > highest_allowed) return false;
  static const std::array<bool, 5> found = {detect(Isa::generic), detect(Isa::avx2),
                                            detect(Isa::avx512), detect(Isa::avx512_bf16),
                                            detect(Isa::amx)};
  return found[static_cast<std::size_t>(isa)];
}

void require(Isa isa) {
  if (!supported(isa))
    throw configuration_error("this processor has no {}; its best level is {}", to_string(isa),
                              to_string(best_isa()));
}

bool prefers_bf16(Isa isa) {
  __builtin_cpu_init();
  return isa == Isa::amx || (isa == Isa::avx512_bf16 && !__builtin_cpu_is("intel"));
}

void limit_isa(Isa highest) {
  require(highest);
  highest_allowed = highest;
}

Isa best_isa() { return supported_isas().back(); }

std::vector<Isa> supported_isas() {
  std::vector<Isa> all;
  for (const auto& [isa, word] : kNames)
    if (supported(isa)) all.push_back(isa);
  return all;
}

}  // namespace gpuhpc::kernels
