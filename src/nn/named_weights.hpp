#pragma once
// The weights of a Hugging Face folder under the names that an Encoder and its head use; private to
// room nn.
#include <gpuhpc/io/safetensors.hpp>
#include <gpuhpc/nn/encoder.hpp>

#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace gpuhpc {

class NamedWeights {
 public:
  NamedWeights(const std::filesystem::path& folder, const EncoderConfig& config);
  std::string file() const { return weights_.path().string(); }
  bool has(std::string_view name) const { return by_name_.contains(name); }
  // Two tensors, both there, of one type and the same values.
  bool same_bytes(std::string_view one, std::string_view other) const;
  // Throws input_error for a parameter whose tensor is missing or has another shape. They may be of
  // the meta device, which has names and shapes and no memory: a config.json that asks for far more
  // than the file holds is refused before anything of that size is made.
  void check(const std::vector<NamedParameter>& parameters) const;
  // Every parameter from the tensor of its name, checked.
  void fill(const std::vector<NamedParameter>& parameters) const;
  // Throws input_error for a tensor that is none of `parameters` and begins with none of the
  // prefixes.
  void refuse_strangers(std::span<const NamedParameter> parameters,
                        std::span<const std::string_view> left_aside) const;

 private:
  const TensorView& tensor_of(const NamedParameter& parameter) const;

  std::filesystem::path folder_;
  EncoderConfig config_;
  ModelWeights weights_;
  std::map<std::string, const TensorView*, std::less<>> by_name_;
};

// DeBERTa 1 keeps query, key and value of each head together in in_proj; an Encoder has all
// queries, all keys, all values. The way back.
at::Tensor in_file_order(const EncoderConfig& config, std::string_view name,
                         const at::Tensor& value);

}  // namespace gpuhpc
