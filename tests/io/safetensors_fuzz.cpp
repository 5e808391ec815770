// libFuzzer target: any bytes are either refused with an input_error or give tensors that lie
// inside the file. Seeds: tests/io/fixtures/safetensors_seeds.
#include <cstdlib>

#include "gpuhpc/base/error.hpp"
#include "gpuhpc/io/safetensors.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  try {
    const auto content = gpuhpc::parse_safetensors(bytes, "fuzz");
    std::size_t total = 0;
    for (const auto& tensor : content.tensors) {
      const bool inside = tensor.data.data() >= bytes.data() &&
                          tensor.data.data() + tensor.data.size() <= bytes.data() + bytes.size();
      if (!inside || std::ssize(tensor.data) != tensor.count() * gpuhpc::size_of(tensor.type))
        std::abort();
      total += tensor.data.size();
      unsigned sum = 0;
      for (const auto byte : tensor.data) sum += static_cast<unsigned>(byte);
      if (sum > 255U * tensor.data.size()) std::abort();
    }
    if (total + 8 > size) std::abort();
  } catch (const gpuhpc::Error& error) {
    if (error.code() != gpuhpc::ExitCode::bad_data) std::abort();
  }
  return 0;
}
