#include "gpuhpc/comm/tensors.hpp"

#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "gpuhpc/base/error.hpp"
#include "gpuhpc/comm/thread.hpp"

namespace gpuhpc {
namespace {

TEST(TensorCollectives, TravelInTheirOwnType) {
  run_thread_ranks(2, {}, [](Communicator& comm) {
    for (const at::ScalarType type :
         {at::kFloat, at::kDouble, at::kBFloat16, at::kHalf, at::kInt, at::kLong, at::kByte}) {
      const at::Tensor data = at::full({3, 5}, comm.rank() + 1, type);
      all_reduce(comm, data);
      EXPECT_TRUE(at::equal(data, at::full({3, 5}, 3, type))) << c10::toString(type);
      const at::Tensor mine = at::zeros({4}, type), all = at::zeros({2, 4}, type);
      reduce_scatter(comm, at::arange(8, type), mine);
      EXPECT_TRUE(at::equal(mine, at::arange(comm.rank() * 8, comm.rank() * 8 + 8, 2, type)));
      start_all_gather(comm, mine, all)->wait();
      EXPECT_TRUE(at::equal(all.view({8}), at::arange(0, 16, 2, type)));
    }
  });
}
TEST(TensorCollectives, RefuseWhatIsNotContiguousOrDoesNotFit) {
  const auto comm = make_single_communicator();
  const auto expect_internal = [](const std::function<void()>& work, const char* text) {
    try {
      work();
      ADD_FAILURE() << "nothing thrown: " << text;
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ExitCode::internal);
      EXPECT_THAT(e.what(), testing::HasSubstr(text));
    }
  };
  const at::Tensor columns = at::zeros({3, 5}).t(), whole = at::zeros({15});
  expect_internal([&] { all_reduce(*comm, columns); }, "not contiguous");
  expect_internal([&] { broadcast(*comm, columns); }, "not contiguous");
  expect_internal([&] { all_gather(*comm, columns, whole); }, "not contiguous");
  expect_internal([&] { reduce_scatter(*comm, whole, columns); }, "not contiguous");
  expect_internal([&] { all_gather(*comm, whole, at::zeros({16})); }, "15 elements");
  expect_internal([&] { all_gather(*comm, whole, at::zeros({15}, at::kLong)); }, "different types");
  expect_internal([&] { all_reduce(*comm, at::zeros({2}, at::kBool)); }, "do not travel");
}

}  // namespace
}  // namespace gpuhpc
