#include "gpuhpc/train/profile.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "../io/scratch_folder.hpp"
#include "gpuhpc/base/error.hpp"
#include "gpuhpc/io/json.hpp"
#include "tiny_model.hpp"

namespace gpuhpc {
namespace {

TEST(ProfileOptions, AreOneStepOrTwoWithADash) {
  const auto range = [](const std::string& steps) {
    const Range chosen = ProfileOptions{steps}.range();
    return std::pair(chosen.first, chosen.last);
  };
  EXPECT_EQ(range(""), std::pair(std::int64_t{0}, std::int64_t{0}));
  EXPECT_EQ(range("5"), std::pair(std::int64_t{5}, std::int64_t{6}));
  EXPECT_EQ(range("10-12"), std::pair(std::int64_t{10}, std::int64_t{13}));
  for (const char* wrong : {"0", "x", "5-", "-5", "5-4", "5 - 6", "5,6", "5-6-7", " 5"})
    EXPECT_THROW(range(wrong), Error) << wrong;
}

// Trains ten steps of three micro-batches each; traces go to `folder`/trace/tiny.
void train_traced(const std::filesystem::path& folder, const std::string& steps,
                  const std::function<bool()>& stop = {}) {
  TinyTask task(120);
  const auto comm = make_single_communicator();
  TrainOptions options = tiny_options();
  options.micro_batch = 8;
  Trainer(task.arena, task, options,
          {.comm = *comm,
           .profile = {steps},
           .run_folder = folder,
           .stage = "tiny",
           .stop_requested = stop})
      .run();
}

TEST(Trace, HoldsThePhasesOfTheChosenStepsOneWithinTheOther) {
  const ScratchFolder folder;
  train_traced(folder / "", "3-4");
  const Json file = read_json(folder / "trace/tiny/rank-00000.json");
  std::map<std::string, int> count;
  std::vector<Json> spans;
  for (const Json& event : file.at("traceEvents")) {
    EXPECT_EQ(event.at("pid"), 0);
    if (event.at("ph") == "M") {
      EXPECT_THAT(event.at("args").at("name").get<std::string>(),
                  ::testing::StartsWith("rank 0 on "));
      continue;
    }
    EXPECT_EQ(event.at("ph"), "X");
    EXPECT_EQ(event.at("tid"), 0);
    ++count[event.at("name")];
    spans.push_back(event);
  }
  // Data: the global batch, its micro-batches, and each of the three when it is packed.
  EXPECT_EQ(count, (std::map<std::string, int>{{"step 3", 1},
                                               {"step 4", 1},
                                               {"data", 8},
                                               {"forward", 6},
                                               {"backward", 6},
                                               {"sum", 2},
                                               {"agreement", 2},
                                               {"update", 2},
                                               {"gather", 2},
                                               {"report", 2}}));
  const auto first = [](const Json& span) { return span.at("ts").get<std::int64_t>(); };
  const auto last = [&](const Json& span) {
    return first(span) + span.at("dur").get<std::int64_t>();
  };
  for (const Json& span : spans) {
    const std::int64_t step = span.at("args").at("step");
    const auto whole = std::ranges::find_if(
        spans, [&](const Json& s) { return s.at("name") == fmt::format("step {}", step); });
    ASSERT_NE(whole, spans.end()) << span;
    EXPECT_TRUE(first(span) >= first(*whole) && last(span) <= last(*whole)) << span;
    for (const Json& other : spans)
      EXPECT_TRUE(last(span) <= first(other) || last(other) <= first(span) ||
                  (first(span) <= first(other) && last(other) <= last(span)) ||
                  (first(other) <= first(span) && last(span) <= last(other)))
          << span << other;
  }
}

TEST(Trace, OfARunThatIsStoppedHoldsWhatThereWas) {
  const ScratchFolder folder;
  int steps = 0;
  EXPECT_THROW(train_traced(folder / "", "2-8", [&] { return ++steps == 3; }), Error);
  std::set<std::int64_t> traced;
  const Json file = read_json(folder / "trace/tiny/rank-00000.json");
  for (const Json& event : file.at("traceEvents"))
    if (event.at("ph") == "X") traced.insert(event.at("args").at("step").get<std::int64_t>());
  EXPECT_EQ(traced, (std::set<std::int64_t>{2, 3}));
}

TEST(Trace, OfStepsThatNeverCameIsNotWritten) {
  const ScratchFolder folder;
  train_traced(folder / "", "11-19");
  EXPECT_FALSE(std::filesystem::exists(folder / "trace"));
}

}  // namespace
}  // namespace gpuhpc
