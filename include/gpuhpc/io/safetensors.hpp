#pragma once
// Weights in the safetensors format (8-byte little-endian header length, JSON header, tensor
// bytes), mapped for reading.
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gpuhpc/io/mapped_file.hpp"

namespace gpuhpc {

enum class TensorType {
  boolean,
  uint8,
  int8,
  float8_e5m2,
  float8_e4m3,
  int16,
  uint16,
  float16,
  bfloat16,
  int32,
  uint32,
  float32,
  int64,
  uint64,
  float64
};
std::int64_t size_of(TensorType type);      // bytes of one element
std::string_view name_of(TensorType type);  // "F32", "BF16", ...

struct TensorView {
  std::string name;
  TensorType type = TensorType::float32;
  std::vector<std::int64_t> shape;
  std::span<const std::byte> data;
  std::int64_t count() const;  // elements
};

struct SafeTensorsContent {
  std::vector<TensorView> tensors;              // in the order of their bytes
  std::map<std::string, std::string> metadata;  // "__metadata__"
};
// Every malformed file is an input_error that begins with `where`. The views point into `bytes`.
SafeTensorsContent parse_safetensors(std::span<const std::byte> bytes, const std::string& where);

class SafeTensors {
 public:
  explicit SafeTensors(const std::filesystem::path& path);
  const std::vector<TensorView>& tensors() const { return content_.tensors; }
  const std::map<std::string, std::string>& metadata() const { return content_.metadata; }
  const TensorView* find(std::string_view name) const;  // null when absent
  const std::filesystem::path& path() const { return file_.path(); }

 private:
  MappedFile file_;
  SafeTensorsContent content_;
};

// All weights of a Hugging Face folder: model.safetensors, or the shards of
// model.safetensors.index.json (each tensor must be where the index says). A folder that has pickle
// files only (*.bin, *.pt) is refused with the conversion command.
class ModelWeights {
 public:
  explicit ModelWeights(const std::filesystem::path& folder, const std::string& stem = "model");
  const TensorView* find(std::string_view name) const;
  const TensorView& at(std::string_view name) const;           // input_error names file and tensor
  std::vector<std::string> names() const;                      // sorted
  const std::filesystem::path& path() const { return path_; }  // the file or the index

 private:
  std::filesystem::path path_;
  std::vector<SafeTensors> files_;
  std::map<std::string, const TensorView*, std::less<>> by_name_;
};

// F32, F16 and BF16 as floats (exact); others are an input_error.
std::vector<float> to_floats(const TensorView& tensor);

// Bytes depend on the tensors and metadata alone: sorted by element size, then name, as the
// safetensors library does.
void write_safetensors(const std::filesystem::path& path, std::vector<TensorView> tensors,
                       const std::map<std::string, std::string>& metadata = {{"format", "pt"}});
// model.safetensors when it fits into max_shard_bytes, else model-00001-of-00003.safetensors ...
// and the index.
void write_model_weights(const std::filesystem::path& folder, std::vector<TensorView> tensors,
                         std::int64_t max_shard_bytes = 5'000'000'000,
                         const std::map<std::string, std::string>& metadata = {{"format", "pt"}});

}  // namespace gpuhpc
