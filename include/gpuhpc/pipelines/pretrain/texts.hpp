#pragma once
// The texts that a masked-language model learns from or is measured on.
#include <cstdint>
#include <filesystem>
#include <memory>
#include <vector>

#include "gpuhpc/pipelines/pretrain/files.hpp"
#include "gpuhpc/pipelines/pretrain/options.hpp"
#include "gpuhpc/pipelines/pretrain/task.hpp"

namespace gpuhpc {

struct Pretraining {
  TextTokenFiles texts;
  StartModel start;
  MaskingOptions masking;
  FineTuning training;
  MixedCorpora mixed = {};
};
std::uint64_t seed_of(const FineTuning& training);

// In pieces of `longest` tokens at most; `tokenizer`: the folder of the texts' own. input_error for
// one without a mask.
struct LearntTexts {
  LearntTexts(const Pretraining& pretraining, const std::filesystem::path& tokenizer,
              std::int64_t longest, MaskedLanguageTask::Loss loss);
  LearntTexts(const LearntTexts&) = delete;
  const std::vector<std::int64_t>& held_out() const { return course.validation_items; }

  std::unique_ptr<Tokenizer> tokenizer;
  std::vector<TokenDataset> files;
  std::int64_t length;  // of a piece
  MaskedLanguageTask task;
  Course course;  // whole texts are held out, not a share of the pieces
};

// What a training reads, packed and masked as its steps would have it, and nothing computed with
// it: the figures of all ranks together.
struct DataPath {
  std::int64_t batches = 0, tokens = 0, masked = 0;
  double seconds = 0;  // of the slowest rank
};
// Collective. `tokenizer`: the folder of the texts' own.
DataPath measure_data_path(const Pretraining& pretraining, const std::filesystem::path& tokenizer,
                           Communicator& comm, const Log& log);

}  // namespace gpuhpc
