#pragma once
// What the program says of failed system calls and of exceptions that are not its own.
#include <exception>
#include <filesystem>
#include <string_view>

#include "gpuhpc/base/error.hpp"

namespace gpuhpc {

// The io_error for a failed system call: "cannot write X: the disk is full; free some space and
// start again". `action` is a verb: "write", "open", "create".
Error system_error(std::string_view action, const std::filesystem::path& path, int error_number);

// Those of the standard library's file calls are io_errors, a thread that cannot be created is a
// configuration_error, what nobody expected is our own bug.
Error error_of(const std::exception& exception);

}  // namespace gpuhpc
