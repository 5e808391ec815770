#include "gpuhpc/stages/teleclass/training.hpp"

#include "gpuhpc/comm/together.hpp"
#include "gpuhpc/stages/classify/model_folder.hpp"
#include "gpuhpc/stages/teleclass/variants/bilinear_training.hpp"
#include "gpuhpc/stages/teleclass/variants/student_training.hpp"

namespace gpuhpc {

void run_training(const StageContext& c, const TeleclassPipelineOptions& o, const InputLayout& layout) {
  on_root(c.comm, [&] { copy_taxonomy(layout, c.folder / "model"); });
  if (o.teleclass.refinement == "soft") train_path_model(c, o, layout);
  else train_bilinear_model(c, o);
}

}  // namespace gpuhpc
