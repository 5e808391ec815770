// Fifty updates of a tiny BERT on masked tokens, beside transformers and PyTorch's AdamW.
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "gpuhpc/io/safetensors.hpp"
#include "gpuhpc/nn/masked_language_model.hpp"
#include "gpuhpc/train/arena.hpp"
#include "gpuhpc/train/optimizer.hpp"

namespace gpuhpc {
namespace {

// data_tools/fixtures/make_masked_language.py
TEST(MaskedLanguageCurve, EqualsThatOfTransformers) {
  const std::string fixtures = "tests/nn/fixtures/";
  const SafeTensors expected(fixtures + "masked_bert_curve.safetensors");
  const auto numbers = [&](const std::string& name) {
    const auto bytes = expected.find(name)->data;
    const auto* first = reinterpret_cast<const std::int32_t*>(bytes.data());
    return std::vector<std::int32_t>(first, first + bytes.size() / sizeof(std::int32_t));
  };
  const auto ids = numbers("token_ids"), offsets = numbers("offsets"), places = numbers("places"),
             targets = numbers("targets");
  const auto* losses = reinterpret_cast<const float*>(expected.find("losses")->data.data());

  MaskedLanguageModel model = MaskedLanguageModel::load(fixtures + "masked_bert", 5, at::kCPU);
  model.base.encoder.train_top_layers(-1);
  std::vector<ParameterSlot> slots = trained_parameters(model.base.encoder);
  for (ParameterSlot& slot : trained_parameters(model.head)) slots.push_back(slot);
  ParameterArena arena(split_by_decay("model", 1e-2, .03, slots));
  const auto optimizer = make_optimizer(
      "adamw", arena, {.beta1 = .9, .beta2 = .98, .epsilon = 1e-6}, {{0, arena.capacity()}});
  constexpr std::size_t steps = 50, documents = 5;
  ASSERT_EQ(offsets.size(), steps * documents + 1);
  std::size_t place = 0, target = 0;
  double largest = 0;
  for (std::size_t step = 0; step < steps; ++step) {
    PackedIds batch;
    batch.offsets.clear();
    const std::int32_t begin = offsets[step * documents];
    for (std::size_t d = 0; d <= documents; ++d)
      batch.offsets.push_back(offsets[step * documents + d] - begin);
    batch.token_ids.assign(ids.begin() + begin, ids.begin() + begin + batch.offsets.back());
    batch.documents = {0, 1, 2, 3, 4};
    const auto count = static_cast<std::size_t>(places[place++]);
    const std::vector<std::int64_t> masked(
        places.begin() + static_cast<std::ptrdiff_t>(place),
        places.begin() + static_cast<std::ptrdiff_t>(place + count)),
        was(targets.begin() + static_cast<std::ptrdiff_t>(target),
            targets.begin() + static_cast<std::ptrdiff_t>(target + count));
    place += count, target += count;
    arena.zero_gradients();
    const at::Tensor sum = model.loss(pack_tokens(batch, at::kCPU), masked, was);
    sum.backward();
    const auto mean = static_cast<double>(count);
    largest = std::max(largest, std::abs(sum.item<double>() / mean - losses[step]));
    const double norm = std::sqrt(square_sum(arena.gradients())) / mean;
    optimizer->step(1, clip_factor(norm, 1) / mean);
  }
  EXPECT_LE(largest, 1e-5);
  EXPECT_LT(std::accumulate(losses + 40, losses + 50, 0.0),
            std::accumulate(losses, losses + 10, 0.0) - 1);
}

}  // namespace
}  // namespace gpuhpc
