#pragma once
// What the command line asks for before any option is read.
#include <filesystem>
#include <string>
#include <vector>

#include "gpuhpc/app/command.hpp"

namespace gpuhpc {

struct Invocation {
  std::string command = "run";
  std::filesystem::path config;
  bool help = false, version = false, dry_run = false, options_table = false;
  std::vector<std::string> options, help_words;  // help_words: of --help
};

// usage_error for a --config without a file, and for nothing at all where there is no gpuhpc.ini.
Invocation read_invocation(const std::vector<std::string>& arguments);
const Command& find_command(const std::string& name);  // usage_error with the names of all
void print_help(const config::OptionSet& set, const std::vector<std::string>& words);

}  // namespace gpuhpc
