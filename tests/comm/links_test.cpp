#include "gpuhpc/comm/links.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "gpuhpc/base/error.hpp"
#include "gpuhpc/comm/thread.hpp"
#include "over_another.hpp"

namespace gpuhpc {
namespace {

using testing::HasSubstr;

// Another communicator whose sums are wrong in one element.
class WrongSums final : public OverAnother {
 public:
  using OverAnother::OverAnother;
  void all_reduce(void* data, std::int64_t count, DataType type, Reduce reduce) override {
    OverAnother::all_reduce(data, count, type, reduce);
    if (count > 77) static_cast<float*>(data)[77] += 1;
  }
};

TEST(MeasureAllReduce, RightAnswersHaveARate) {
  run_thread_ranks(3, {}, [](Communicator& comm) {
    const AllReduceRate rate = measure_all_reduce(comm, 1 << 16, .01);
    EXPECT_EQ(rate.bytes, 1 << 16);
    EXPECT_GT(rate.seconds, 0);
    EXPECT_NEAR(rate.link_rate(3), rate.rate() * 4 / 3, 1);
  });
}
TEST(MeasureAllReduce, AWrongElementIsFound) {
  try {
    run_thread_ranks(2, {}, [](Communicator& comm) {
      WrongSums wrong(comm);
      measure_all_reduce(wrong, 4096, .01);
    });
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ExitCode::peer);
    EXPECT_THAT(e.what(), HasSubstr("all_reduce of 1024 float32 gave"));
    EXPECT_THAT(e.what(), HasSubstr("as element 77 where"));
  }
}

}  // namespace
}  // namespace gpuhpc
