#pragma once
// From the command line to an exit code: parses, builds the context and calls one command.
#include <string>
#include <vector>

#include "gpuhpc/comm/communicator.hpp"

namespace gpuhpc {

// Never throws. All ranks return the same code; a rank that fails alone ends the others (see abort_all).
int run_application(Communicator& comm, const std::vector<std::string>& arguments, void (*abort_all)(int code));

}  // namespace gpuhpc
