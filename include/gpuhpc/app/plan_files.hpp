#pragma once
// What a plan leaves and reads: factors of measured trials, the plan as JSON, a config file.
#include <filesystem>

#include "gpuhpc/config/options.hpp"
#include "gpuhpc/plan/options.hpp"
#include "gpuhpc/plan/plan.hpp"

namespace gpuhpc {

// A row a trial; the newest of each way of computing counts.
class CalibrationFile {
 public:
  void read(const std::filesystem::path& path);  // a file that is not there has no rows
  void write(const std::filesystem::path& path) const;
  void add(const PlanRequest& request, const PlannedWork& work, const PlannedBatch& batch,
           const MemoryParts& predicted, double predicted_seconds, std::int64_t measured,
           double measured_seconds);
  // Of the trials of the same job, family, device, precision and checkpointing the one whose memory
  // was underestimated most.
  Calibration find(const PlanRequest& request, const PlannedWork& work) const;

 private:
  Json trials_ = Json::array();
};

nlohmann::ordered_json plan_json(const PlanRequest& request, const Plan& plan);
// All options of the run as they stand in `set`, with those of the best candidate in their places.
std::string plan_config(const PlanRequest& request, const Plan& plan, const config::OptionSet& set,
                        const PlanOptions& options);

}  // namespace gpuhpc
