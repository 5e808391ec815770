#include "gpuhpc/comm/links.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "gpuhpc/base/error.hpp"
#include "gpuhpc/comm/thread.hpp"

namespace gpuhpc {
namespace {

using testing::HasSubstr;

// Another communicator whose sums are wrong in one element.
class WrongSums final : public Communicator {
 public:
  explicit WrongSums(Communicator& right) : right_(right) {}
  int rank() const override { return right_.rank(); }
  int size() const override { return right_.size(); }
  int node_rank() const override { return right_.node_rank(); }
  int node_size() const override { return right_.node_size(); }
  std::string host() const override { return right_.host(); }
  void barrier() override { right_.barrier(); }
  void all_reduce(void* data, std::int64_t count, DataType type, Reduce reduce) override {
    right_.all_reduce(data, count, type, reduce);
    if (count > 77) static_cast<float*>(data)[77] += 1;
  }
  void broadcast(void* data, std::int64_t count, DataType type, int root) override {
    right_.broadcast(data, count, type, root);
  }
  void all_gather(const void* send, std::int64_t count, DataType type, void* receive) override {
    right_.all_gather(send, count, type, receive);
  }
  void all_gather_ragged(const void* send, std::int64_t count, DataType type, void* receive,
                         std::span<const std::int64_t> counts) override {
    right_.all_gather_ragged(send, count, type, receive, counts);
  }
  void reduce_scatter(const void* send, void* receive, std::int64_t count, DataType type,
                      Reduce reduce) override {
    right_.reduce_scatter(send, receive, count, type, reduce);
  }

 private:
  Communicator& right_;
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
