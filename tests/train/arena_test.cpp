#include "gpuhpc/train/arena.hpp"

#include <ATen/ops/full.h>
#include <gtest/gtest.h>

#include "tiny_model.hpp"

namespace gpuhpc {
namespace {

TEST(Arena, ViewsShareTheFlatBuffersAndKeepTheirValues) {
  TinyModel model;
  const at::Tensor before = model.parameters()[1].value.detach().clone();
  ParameterArena arena(split_by_decay("model", 1e-3, .01, trained_parameters(model)));
  const at::Tensor& view = model.parameters()[1].value;
  EXPECT_TRUE(view.is_leaf() && view.requires_grad() && view.is_contiguous());
  EXPECT_TRUE(view.equal(before));
  arena.parameters().fill_(3);
  EXPECT_TRUE(view.detach().equal(at::full({width, width}, 3.0)));
  for (const auto& entry : arena.entries()) EXPECT_EQ(entry.range.first % 16, 0) << entry.name;
  EXPECT_EQ(arena.parameter_count(), vocabulary * width + width * width + width + classes * width);
}

TEST(Arena, BackwardAccumulatesIntoTheFlatGradient) {
  TinyModel model;
  ParameterArena arena(split_by_decay("model", 1e-3, .01, trained_parameters(model)));
  const void* const buffer = arena.gradients().const_data_ptr();
  const at::Tensor& head = model.parameters()[3].value;
  head.mul(2).sum().backward();
  head.mul(3).sum().backward();
  EXPECT_EQ(arena.gradients().const_data_ptr(), buffer);
  EXPECT_EQ(arena.gradients().sum().item<float>(), 5 * classes * width);
  EXPECT_EQ(head.grad().const_data_ptr(),
            static_cast<const float*>(buffer) + arena.entries()[2].range.first);
  arena.zero_gradients();
  EXPECT_EQ(head.grad().abs().sum().item<float>(), 0);
}

TEST(Arena, BiasesFormAGroupWithoutDecay) {
  TinyModel model;
  ParameterArena arena(split_by_decay("model", 1e-3, .01, trained_parameters(model)));
  ASSERT_EQ(arena.groups().size(), 2U);
  EXPECT_EQ(arena.groups()[1].name, "model.no-decay");
  EXPECT_EQ(arena.groups()[1].weight_decay, 0);
  EXPECT_EQ(arena.groups()[1].range.size(), 16);  // 12 values, padded
  EXPECT_EQ(arena.entries().back().name, "hidden.bias");
}

TEST(Arena, SlicesCoverEverythingOnce) {
  for (const int ranks : {1, 2, 3, 4, 7}) {
    TinyModel model;
    ParameterArena arena(split_by_decay("model", 1e-3, .01, trained_parameters(model)), ranks);
    std::int64_t next = 0;
    for (int rank = 0; rank < ranks; ++rank) {
      const Range slice = arena.slice(rank, ranks);
      EXPECT_EQ(slice.first, next);
      EXPECT_EQ(slice.size(), arena.capacity() / ranks);
      EXPECT_EQ(slice.first % 16, 0);
      next = slice.last;
    }
    EXPECT_EQ(next, arena.capacity());
  }
}

TEST(Arena, TiedWeightsTakeOnePlace) {
  at::Tensor shared = random_tensor({4, 4}, 1, 1), first = shared, second = shared;
  ParameterArena arena({{"all",
                         1,
                         0,
                         {{"in", shared, [&](at::Tensor t) { first = t; }},
                          {"out", shared, [&](at::Tensor t) { second = t; }}}}});
  EXPECT_EQ(arena.parameter_count(), 16);
  EXPECT_TRUE(first.is_same(second));
}

TEST(Arena, FrozenTensorsStayOutside) {
  TinyModel model;
  model.rebind(0, model.parameters()[0].value.detach());
  EXPECT_EQ(trained_parameters(model).size(), 3U);
}

}  // namespace
}  // namespace gpuhpc
