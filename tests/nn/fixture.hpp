#pragma once
// Tensors and batches out of the committed safetensors fixtures (made by
// data_tools/fixtures/make_nn.py).
#include <gpuhpc/io/safetensors.hpp>
#include <gpuhpc/nn/encoder.hpp>
#include <gpuhpc/nn/packed.hpp>

#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/abs.h>
#include <ATen/ops/max.h>
#include <ATen/ops/tensor.h>

#include <cstring>
#include <filesystem>
#include <set>
#include <string>
#include <vector>

namespace gpuhpc {

// Tensors this small only wait for each other on two threads, for seconds when the cores are
// shared.
inline const bool one_thread = (at::set_num_threads(1), true);

inline std::filesystem::path fixture_path(const std::string& name) {
  return std::filesystem::path(GPUHPC_FIXTURES) / name;
}

inline const std::filesystem::path minilm_folder =
    std::filesystem::path(GPUHPC_MODELS) / "all-MiniLM-L6-v2";

// Of all tensors of a model folder.
inline std::set<std::string> names_in(const std::filesystem::path& folder) {
  const SafeTensors file(folder / "model.safetensors");
  std::set<std::string> names;
  for (const TensorView& tensor : file.tensors()) names.insert(tensor.name);
  return names;
}

inline ForwardOptions computing_in(at::ScalarType compute) {
  ForwardOptions options;
  options.compute = compute;
  return options;
}

inline at::Tensor read_floats(const SafeTensors& file, const std::string& name) {
  const TensorView* view = file.find(name);
  if (view == nullptr) throw std::runtime_error("fixture lacks " + name);
  return at::tensor(to_floats(*view)).reshape(view->shape);
}

inline std::vector<std::int32_t> read_ints(const SafeTensors& file, const std::string& name) {
  const TensorView* view = file.find(name);
  if (view == nullptr) throw std::runtime_error("fixture lacks " + name);
  std::vector<std::int32_t> values(static_cast<std::size_t>(view->count()));
  std::memcpy(values.data(), view->data.data(), view->data.size());
  return values;
}

inline PackedTokens read_batch(const SafeTensors& file, bool segments = false) {
  const auto segment_ids = segments ? read_ints(file, "segment_ids") : std::vector<std::int32_t>{};
  return pack_tokens(read_ints(file, "token_ids"), read_ints(file, "offsets"), at::kCPU,
                     segment_ids);
}

inline double largest_difference(const at::Tensor& a, const at::Tensor& b) {
  if (a.sizes() != b.sizes()) return 1e30;
  return (a.detach().to(at::kDouble) - b.detach().to(at::kDouble)).abs().max().item<double>();
}

}  // namespace gpuhpc
