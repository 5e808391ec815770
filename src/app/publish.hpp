#pragma once
#include <filesystem>
#include <vector>

#include "gpuhpc/pipelines/stage.hpp"

namespace gpuhpc {

// What the user looks for appears at the top of the run folder: second names of what the finished
// stages left in their own.
void publish(const std::vector<Stage>& stages, const std::filesystem::path& run);

}  // namespace gpuhpc
