#include "gpuhpc/device/ranges.hpp"

#ifdef GPUHPC_WITH_CUDA
#include <nvtx3/nvToolsExt.h>
#endif

namespace gpuhpc {

void push_range([[maybe_unused]] const std::string& name) {
#ifdef GPUHPC_WITH_CUDA
  nvtxRangePushA(name.c_str());
#endif
}

void pop_range() {
#ifdef GPUHPC_WITH_CUDA
  nvtxRangePop();
#endif
}

}  // namespace gpuhpc
