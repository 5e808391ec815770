#include "gpuhpc/train/watch.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace gpuhpc {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;

TrainSummary spent(double data, double compute, double sum, double update, double other) {
  TrainSummary s;
  s.data_seconds = data, s.compute_seconds = compute, s.exposed_communication_seconds = sum,
  s.update_seconds = update, s.other_seconds = other;
  return s;
}

TEST(TimeSplit, NamesEveryPart) {
  TrainSummary summary = spent(1.26, 84, 10, 4, .74);
  summary.own_tokens = 7000, summary.seconds = 100;
  EXPECT_EQ(describe_times(summary),
            "waiting for data 1.3%, compute 84%, sums over ranks 10%, update 4%, other 1%; 70 "
            "tokens/s");
  EXPECT_EQ(describe_times({}),
            "waiting for data 0.0%, compute 0%, sums over ranks 0%, update 0%, other 0%; 0 "
            "tokens/s");
}

TEST(TimeSplit, AdvisesWhereTimeIsLost) {
  EXPECT_THAT(time_advice(spent(4, 80, 15, 1, 0)), IsEmpty());
  EXPECT_THAT(time_advice(spent(12, 80, 7, 1, 0)),
              ElementsAre(AllOf(StartsWith("12% of the training went into waiting for data: "),
                                HasSubstr("--data.workers (12)"), HasSubstr("--data.prefetch 6"))));
  EXPECT_THAT(time_advice(spent(0, 60, 35, 5, 0)),
              ElementsAre(StartsWith("35% of the training went into sums over ranks")));
}

}  // namespace
}  // namespace gpuhpc
