#include "invocation.hpp"

#include <fmt/format.h>

#include "gpuhpc/base/error.hpp"

namespace gpuhpc {

Invocation read_invocation(const std::vector<std::string>& arguments) {
  Invocation invocation;
  std::size_t i = 0;
  if (!arguments.empty() && !arguments[0].starts_with("-")) invocation.command = arguments[i++];
  for (; i < arguments.size(); ++i) {
    const std::string& word = arguments[i];
    if (word == "--help" || word == "-h") {
      invocation.help = true;
      while (i + 1 < arguments.size() && !arguments[i + 1].starts_with("-"))
        invocation.help_words.push_back(arguments[++i]);
    } else if (word == "--version")
      invocation.version = true;
    else if (word == "--dry-run")
      invocation.dry_run = true;
    else if (word == "--markdown")
      invocation.options_table = true;
    else if (word.starts_with("--config="))
      invocation.config = word.substr(9);
    else if (word == "--config" && i + 1 < arguments.size())
      invocation.config = arguments[++i];
    else if (word == "--config")
      throw usage_error("--config needs a file");
    else
      invocation.options.push_back(word);
  }
  // Bare `gpuhpc` means the config file of this folder.
  if (arguments.empty()) {
    if (!std::filesystem::exists("gpuhpc.ini"))
      throw usage_error(
          "no gpuhpc.ini in this folder; name a config with --config FILE, or see gpuhpc --help");
    invocation.config = "gpuhpc.ini";
  }
  return invocation;
}

const Command& find_command(const std::string& name) {
  std::string known;
  for (const Command& command : commands()) {
    if (command.name == name) return command;
    known += (known.empty() ? "" : ", ") + command.name;
  }
  throw usage_error("unknown command `{}`; the commands are {}", name, known);
}

void print_help(const config::OptionSet& set, const std::vector<std::string>& words) {
  std::string text =
      "gpuhpc [COMMAND] [--config FILE] [--section.option VALUE ...] [--dry-run] [--version] "
      "[--help [all|SECTION]]\n"
      "Labels documents from a class taxonomy alone; also under mpirun or srun.\n\nCommands:\n";
  for (const Command& command : commands())
    text += fmt::format("  {:15} {}\n", command.name, command.about);
  fmt::print("{}{}", text, set.help(words));
}

}  // namespace gpuhpc
