#pragma once
// Where the time of a training went on this rank, in words, and what can be done about it.
#include <string>
#include <vector>

#include "gpuhpc/train/trainer.hpp"

namespace gpuhpc {

// "data 1%, compute 84%, sums over ranks 10%, update 4%, other 1%"
std::string describe_times(const TrainSummary& summary);
// A sentence for waiting for data above 5% of the time, one for sums that no computing hides above
// 20%. Often none.
std::vector<std::string> time_advice(const TrainSummary& summary);

}  // namespace gpuhpc
