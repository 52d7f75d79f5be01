#pragma once
// The part of a command in front of its program: srun, mpirun, torchrun, deepspeed, python.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "models/arguments/argument_text.hpp"

namespace tandem::arguments {

/// The name of a command that starts another one: "srun" of "/usr/bin/srun", "python" of "python3.11". Empty for any other word.
std::string command_of(std::string_view word);

/// Whether a word in front of the program cannot be an option's value: a command, or an option with one dash ("-u", "-N2").
bool begins_next_part(std::string_view word);

/// The program that `-m NAME` starts: "pretrain_gpt.py" of pretrain_gpt. Empty for a launcher such as torch.distributed.run, and
/// for what is no module's name.
std::string program_of_module(std::string_view name);

/// The command that a launcher's module is: "torchrun" of torch.distributed.run. Empty for any other.
std::string launcher_of_module(std::string_view name);

/// What an option with one dash says of the number of processes.
struct ProcessCount {
  std::string argument;  ///< "np": of processes; "nodes"
  std::string value;     ///< behind the letter; empty: the next word
};

/// Reads "-n 16", "-n16" and "-np 16" of srun and mpirun, and "-N 2" of srun (mpirun's says something else). `command` is the last
/// one named, or empty.
std::optional<ProcessCount> process_count(std::string_view command, std::string_view word);

/// The processes that a command starts: torchrun's nodes and processes, DeepSpeed's nodes, devices and hostfile (beside `file`),
/// tasks of srun and mpirun, NNODES and NPROC_PER_NODE of the environment. `each_visible`: the program itself starts one for each
/// device of CUDA_VISIBLE_DEVICES. Nothing where the command leaves it to the machine; what `accelerate launch` is given is not
/// counted here. Throws ConfigError for a hostfile without hosts.
std::optional<std::int64_t> process_count_of(const Arguments& command, bool each_visible, const std::string& file);

}  // namespace tandem::arguments
