#include "gpuhpc/stages/classify/metrics_log.hpp"

#include "gpuhpc/io/atomic_file.hpp"
#include "gpuhpc/io/json.hpp"

namespace gpuhpc {

std::function<void(const StepReport&)> MetricsLog::hook() const {
  if (!root_) return {};
  return [path = path_](const StepReport& r) {
    append_line(path, Json{{"step", r.step}, {"epoch", r.epoch}, {"loss", r.loss}, {"gradient_norm", r.gradient_norm}, {"rate_factor", r.rate_factor},
                           {"skipped", r.skipped}, {"documents", r.documents}, {"tokens", r.tokens}, {"tokens_per_second", r.tokens_per_second},
                           {"micro_batch", r.micro_batch}, {"loss_scale", r.loss_scale}, {"compute_seconds", r.compute_seconds}, {"sum_seconds", r.sum_seconds}, {"update_seconds", r.update_seconds}}
                          .dump());
  };
}

void MetricsLog::validation(std::int64_t step, std::int64_t epoch, double loss) const {
  if (root_) append_line(path_, Json{{"step", step}, {"epoch", epoch}, {"validation_loss", loss}}.dump());
}

}  // namespace gpuhpc
