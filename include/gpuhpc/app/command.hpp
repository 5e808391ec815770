#pragma once
// The command table: one entry and one function a command.
#include <chrono>
#include <span>
#include <string>
#include <vector>

#include "gpuhpc/app/options.hpp"
#include "gpuhpc/base/log.hpp"
#include "gpuhpc/comm/communicator.hpp"

namespace gpuhpc {

struct CommandContext {
  Communicator& comm;
  Log log;
  const config::OptionSet& set;
  const Options& options;
  DeviceChoice device;
  std::string command_line;
};

struct Command {
  std::string name, about;
  void (*run)(CommandContext&);
  Preset (*preset)(const Options&) = labelling_preset;
  bool leaves_in_order = false;  // asked to stop by a signal, it keeps what is finished
  // Sections and options that it does not read, with blanks between them.
  std::string unread = {};
};
std::span<const Command> commands();
// usage_error for an option of the command line that the command does not read: whoever gives it
// expects that it does something. A config file may serve several commands.
void refuse_unread(const Command& command, const std::vector<std::string>& given);

// One file each in src/app/commands/. All are collective.
void run_command(CommandContext& context);
void prepare_command(CommandContext& context);
void encode_command(CommandContext& context);
void predict_command(CommandContext& context);
void select_command(CommandContext& context);
void evaluate_command(CommandContext& context);
void report_command(CommandContext& context);
void doctor_command(CommandContext& context);
void train_embedding_command(CommandContext& context);
void pretrain_command(CommandContext& context);
void train_seq2seq_command(CommandContext& context);
void generate_command(CommandContext& context);
void mine_command(CommandContext& context);
void plan_command(CommandContext& context);

}  // namespace gpuhpc
