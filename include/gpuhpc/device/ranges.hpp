#pragma once
// Named ranges of this thread on the timeline of Nsight Systems (NVTX). Nothing in a program
// without CUDA, next to nothing where nobody watches.
#include <string>

namespace gpuhpc {

void push_range(const std::string& name);
void pop_range();  // the range of this thread pushed last

}  // namespace gpuhpc
