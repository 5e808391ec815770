#include "gpuhpc/train/sampler.hpp"

#include <c10/util/Exception.h>
#include <gtest/gtest.h>

#include <vector>

#include <new>
#include <set>

#include "gpuhpc/base/error.hpp"

namespace gpuhpc {
namespace {

TEST(LargestFitting, ComesWithinAnEighthAndNeverAbove) {
  for (std::int64_t limit : {1, 2, 7, 64, 1000})
    for (std::int64_t capacity = 0; capacity <= limit + 1; ++capacity) {
      std::int64_t trials = 0;
      const std::int64_t found = largest_fitting(limit, [&](std::int64_t size) {
        ++trials;
        EXPECT_GE(size, 1);
        EXPECT_LE(size, limit);
        return size <= capacity;
      });
      const std::int64_t best = std::min(capacity, limit);
      EXPECT_LE(found, best);
      EXPECT_GE(found, best - best / 8) << "limit " << limit << ", capacity " << capacity;
      EXPECT_LE(trials, 16);
    }
}

TEST(FastestSize, IsTheSmallestOfThoseThatAreAboutAsFast) {
  std::vector<std::int64_t> tried;
  const auto found = [&](std::int64_t limit, double once, double square) {
    tried.clear();
    return fastest_size(limit, [&](std::int64_t size) {
      tried.push_back(size);
      const auto n = static_cast<double>(size);
      return once + n + square * n * n;
    });
  };
  EXPECT_EQ(found(24, 4, .0), 24);  // per item 1 + 4 / n
  EXPECT_EQ(tried, (std::vector<std::int64_t>{1, 2, 4, 8, 16, 24}));
  EXPECT_EQ(found(64, .9, .0), 16);  // 1.056 at 16, 1.014 at 64
  EXPECT_EQ(found(64, 4, .03), 8);   // 1.74 at 8, 1.73 at 16
  EXPECT_EQ(found(1, 4, .03), 1);
  EXPECT_EQ(tried, std::vector<std::int64_t>{1});
}

std::exception_ptr thrown(const auto& error) { return std::make_exception_ptr(error); }

TEST(OutOfMemory, IsToldFromOtherErrors) {
  EXPECT_TRUE(is_out_of_memory(thrown(std::bad_alloc())));
  EXPECT_TRUE(is_out_of_memory(thrown(Error(ExitCode::out_of_memory, "full"))));
  EXPECT_TRUE(is_out_of_memory(
      thrown(c10::OutOfMemoryError({__func__, __FILE__, 1}, "CUDA out of memory"))));
  EXPECT_TRUE(is_out_of_memory(
      thrown(c10::Error({__func__, __FILE__, 1}, "DefaultCPUAllocator: can't allocate memory"))));
  for (const char* text : {"CUDA error: out of memory\nCUDA kernel errors might be asynchronous",
                           "CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(h)`",
                           "cuDNN error: CUDNN_STATUS_ALLOC_FAILED"})
    EXPECT_TRUE(is_out_of_memory(thrown(c10::Error({__func__, __FILE__, 1}, text)))) << text;
  EXPECT_FALSE(is_out_of_memory(thrown(c10::Error({__func__, __FILE__, 1}, "shapes differ"))));
  EXPECT_FALSE(is_out_of_memory(
      thrown(c10::Error({__func__, __FILE__, 1}, "CUDA error: an illegal memory access"))));
  EXPECT_FALSE(is_out_of_memory(thrown(std::runtime_error("no"))));
  EXPECT_FALSE(is_out_of_memory(nullptr));
}

TEST(BatchShape, HoldsTheWholeBatch) {
  const auto shape = [](std::int64_t documents, std::int64_t micro_batch, int ranks) {
    const BatchShape s = batch_shape(documents, micro_batch, ranks);
    return std::vector<std::int64_t>{s.ranks, s.micro_batch, s.accumulation};
  };
  EXPECT_EQ(shape(32, 8, 1), (std::vector<std::int64_t>{1, 8, 4}));
  EXPECT_EQ(shape(32, 8, 2), (std::vector<std::int64_t>{2, 8, 2}));
  EXPECT_EQ(shape(32, 0, 4), (std::vector<std::int64_t>{4, 8, 1}));
  EXPECT_EQ(shape(32, 100, 2), (std::vector<std::int64_t>{
                                   2, 16, 1}));  // more ranks than micro-batches: all of them work
  EXPECT_EQ(shape(24, 5, 4),
            (std::vector<std::int64_t>{4, 5, 2}));  // five micro-batches of five and four documents
  EXPECT_EQ(shape(1, 8, 4), (std::vector<std::int64_t>{4, 1, 1}));
}

TEST(MicroBatch, QuartersEndWhereRanksDo) {
  const auto ends = [](std::int64_t count) {
    std::vector<std::int64_t> last;
    for (std::int64_t i = 0; i < count; ++i)
      if (ends_quarter(i, count)) last.push_back(i);
    return last;
  };
  EXPECT_EQ(ends(1), (std::vector<std::int64_t>{0}));
  EXPECT_EQ(ends(3), (std::vector<std::int64_t>{0, 1, 2}));
  EXPECT_EQ(ends(4), (std::vector<std::int64_t>{0, 1, 2, 3}));
  EXPECT_EQ(ends(8), (std::vector<std::int64_t>{1, 3, 5, 7}));
  EXPECT_EQ(ends(20), (std::vector<std::int64_t>{4, 9, 14, 19}));
}

}  // namespace
}  // namespace gpuhpc
