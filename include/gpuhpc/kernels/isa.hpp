#pragma once
// Which instruction sets the encoder kernels may use, found at run time: the program itself is
// compiled for plain x86-64.
#include <string>
#include <string_view>
#include <vector>

namespace gpuhpc::kernels {

// Ascending: a machine that has one level has all levels before it.
enum class Isa {
  generic,      // plain C++: the reference twin of every kernel
  avx2,         // AVX2 + FMA: fp32
  avx512,       // AVX-512 F/BW/DQ/VL: fp32
  avx512_bf16,  // + VDPBF16PS: bf16; + VNNI: int8 (every processor with the one has the other)
  amx,          // + AMX tiles: bf16 and int8 (likewise)
};

std::string_view to_string(Isa isa);   // "generic", "avx2", "avx512", "avx512-bf16", "amx"
Isa parse_isa(std::string_view name);  // throws usage_error naming the allowed words

// By CPUID and what the operating system saves; AMX also needs the kernel's permission, which is
// asked for here.
bool supported(Isa isa);
void require(Isa isa);  // throws configuration_error when this machine does not have the level
Isa best_isa();
std::vector<Isa> supported_isas();  // ascending, generic first

// Whether bf16 products at this level take less time than fp32's on this machine: AMX's do, and so
// does VDPBF16PS on AMD's processors; on Intel's (model 207) encoding takes 1.8 times as long.
bool prefers_bf16(Isa isa);

// From now on this process has no level above `highest`, which it must have (require()). Called at
// the start, before anything is computed: --device.isa, and the tests of every level.
void limit_isa(Isa highest);

}  // namespace gpuhpc::kernels
