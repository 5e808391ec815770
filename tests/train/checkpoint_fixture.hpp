#pragma once
// A folder for checkpoints and an arena whose contents follow from a number.
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <gtest/gtest.h>
#include <spdlog/sinks/ostream_sink.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "gpuhpc/base/random.hpp"
#include "gpuhpc/train/checkpoint.hpp"

namespace gpuhpc {

// One tensor of `rows` x 7 and a bias, padded for `ranks`; moments over `owned` (empty:
// everything).
class Sample {
 public:
  explicit Sample(std::int64_t number, std::int64_t rows = 1200, int ranks = 1,
                  std::vector<Range> owned = {})
      : arena_({{"group", 1, 0, {slot("weight", {rows, 7}), slot("bias", {7})}}}, ranks),
        owned_(std::move(owned)),
        number_(number) {
    if (owned_.empty()) owned_ = {{0, arena_.capacity()}};
    std::int64_t size = 0;
    for (const Range& range : owned_) size += range.size();
    first_ = at::empty({size}, arena_.parameters().options());
    second_ = at::empty({size}, arena_.parameters().options());
    fill(number);
  }
  void fill(std::int64_t number) {
    number_ = number;
    at::Tensor parameters = arena_.parameters();
    for (std::int64_t i = 0; i < arena_.capacity(); ++i)
      parameters.mutable_data_ptr<float>()[i] = value(0, i);
    std::int64_t next = 0;
    for (const Range& range : owned_)
      for (std::int64_t i = range.first; i < range.last; ++i, ++next)
        first_.mutable_data_ptr<float>()[next] = value(1, i),
        second_.mutable_data_ptr<float>()[next] = value(2, i);
  }
  // In all that is no padding.
  bool equals(const Sample& other) const {
    const auto differs = [&](const at::Tensor& tensor, std::uint64_t kind,
                             const std::vector<Range>& ranges) {
      std::int64_t next = 0, wrong = 0;
      for (const Range& range : ranges)
        for (std::int64_t i = range.first; i < range.last; ++i, ++next)
          for (const auto& entry : arena_.entries())
            if (entry.range.first <= i && i < entry.range.last)
              wrong += tensor.const_data_ptr<float>()[next] != other.value(kind, i);
      return wrong > 0;
    };
    auto& arena = const_cast<ParameterArena&>(arena_);
    return !differs(arena.parameters(), 0, {{0, arena_.capacity()}}) &&
           !differs(first_, 1, owned_) && !differs(second_, 2, owned_);
  }
  CheckpointBuffers buffers() { return {arena_, owned_, first_, second_}; }
  CheckpointState state() const {
    return {
        number_, {}, Json{{"epoch", number_}, {"scale", std::sqrt(static_cast<double>(number_))}}};
  }
  ParameterArena& arena() { return arena_; }

 private:
  static ParameterSlot slot(const std::string& name, std::vector<std::int64_t> shape) {
    return {name, at::empty(shape, at::TensorOptions().dtype(at::kFloat)).zero_(),
            [](at::Tensor) {}};
  }
  float value(std::uint64_t kind, std::int64_t i) const {
    return static_cast<float>(static_cast<double>(number_) + static_cast<double>(kind) / 3 +
                              std::sqrt(static_cast<double>(i)));
  }
  ParameterArena arena_;
  std::vector<Range> owned_;
  at::Tensor first_, second_;
  std::int64_t number_;
};

class CheckpointFolder : public testing::Test {
 protected:
  CheckpointFolder() {
    auto sink = std::make_shared<spdlog::sinks::ostream_sink_mt>(text_);
    sink->set_pattern("%v");
    log_ = std::make_shared<spdlog::logger>("test", sink);
    std::filesystem::remove_all(folder_);
  }
  ~CheckpointFolder() override {
    if (owner_) std::filesystem::remove_all(folder_);
  }
  CheckpointSettings settings() const {
    return {folder_, {"f1", {"train.batch = 32", "train.seed = 42"}}, 2};
  }
  static void flip(const std::filesystem::path& path, std::int64_t bit) {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(bit / 8);
    char byte = 0;
    file.get(byte);
    file.seekp(bit / 8);
    file.put(static_cast<char>(byte ^ (1 << (bit % 8))));
  }
  std::filesystem::path folder_ =
      std::filesystem::temp_directory_path() / ("gpuhpc-checkpoint-" + std::to_string(::getpid()));
  bool owner_ = true;  // of the folder
  std::ostringstream text_;
  Log log_;
};

}  // namespace gpuhpc
