#include "gpuhpc/comm/run_collectively.hpp"

#include <c10/util/Exception.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <new>
#include <stdexcept>

#include "gpuhpc/base/error.hpp"

namespace gpuhpc {
namespace {

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
                           "CUDA error: CUBLAS_STATUS_NOT_INITIALIZED when calling "
                           "`cublasCreate(handle)`",
                           "cuDNN error: CUDNN_STATUS_ALLOC_FAILED"})
    EXPECT_TRUE(is_out_of_memory(thrown(c10::Error({__func__, __FILE__, 1}, text)))) << text;
  EXPECT_FALSE(is_out_of_memory(thrown(c10::Error({__func__, __FILE__, 1}, "shapes differ"))));
  EXPECT_FALSE(is_out_of_memory(
      thrown(c10::Error({__func__, __FILE__, 1}, "CUDA error: an illegal memory access"))));
  EXPECT_FALSE(is_out_of_memory(thrown(std::runtime_error("no"))));
  EXPECT_FALSE(is_out_of_memory(nullptr));
}

// Every command ends with the code for it, not training alone.
TEST(OutOfMemory, OfALibraryEndsWithItsOwnExitCode) {
  const auto error = run_catching([] {
    throw c10::Error({__func__, __FILE__, 1}, "CUDA error: CUBLAS_STATUS_ALLOC_FAILED");
  });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code(), ExitCode::out_of_memory);
  EXPECT_THAT(error->what(),
              testing::StartsWith("out of memory: CUDA error: CUBLAS_STATUS_ALLOC_FAILED"));
  EXPECT_EQ(run_catching([] {
              throw c10::Error({__func__, __FILE__, 1}, "shapes differ");
            })->code(),
            ExitCode::internal);
}

}  // namespace
}  // namespace gpuhpc
