#include "models/arguments/launcher.hpp"

#include <algorithm>
#include <array>

namespace tandem::arguments {
namespace {

constexpr std::array<std::string_view, 18> kCommands = {"srun", "mpirun", "mpiexec", "mpiexec.hydra", "orterun", "prun",    "torchrun", "deepspeed", "accelerate",
                                                        "bash", "sh",     "env",     "numactl",       "taskset", "nice",    "nsys",     "ncu",       "exec"};
constexpr std::array<std::string_view, 6> kMpi = {"mpirun", "mpiexec", "mpiexec.hydra", "orterun", "prun", ""};
/// Modules that start a program.
constexpr std::array<std::string_view, 3> kLaunchers = {"torch.distributed", "deepspeed.", "accelerate."};

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

bool in_module(char c) { return is_letter(c) || c == '_' || c == '.' || (c >= '0' && c <= '9'); }

template <std::size_t N>
bool holds(const std::array<std::string_view, N>& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

}  // namespace

std::string command_of(std::string_view word) {
  const std::string_view name = word.substr(word.rfind('/') + 1);
  const bool python = name.starts_with("python") && name.find_first_not_of("0123456789.", 6) == std::string_view::npos;
  if (python) return "python";
  return holds(kCommands, name) ? std::string(name) : std::string();
}

bool begins_next_part(std::string_view word) {
  return !command_of(word).empty() || (word.size() > 1 && word[0] == '-' && is_letter(word[1]));
}

std::string program_of_module(std::string_view name) {
  if (name.empty() || !is_letter(name[0]) || !std::all_of(name.begin(), name.end(), in_module)) return {};
  if (std::any_of(kLaunchers.begin(), kLaunchers.end(), [&](std::string_view l) { return name.starts_with(l); })) return {};
  return std::string(name.substr(name.rfind('.') + 1)) + ".py";
}

std::optional<ProcessCount> process_count(std::string_view command, std::string_view word) {
  const bool srun = command == "srun" || command.empty(), mpi = holds(kMpi, command);
  if (mpi && word == "-np") return ProcessCount{"np", ""};
  const bool number = word.size() > 1 && word.find_first_not_of("0123456789", 2) == std::string_view::npos;
  if (!number || word[0] != '-') return std::nullopt;
  if ((srun || mpi) && word[1] == 'n') return ProcessCount{"np", std::string(word.substr(2))};
  if (srun && word[1] == 'N') return ProcessCount{"nodes", std::string(word.substr(2))};
  return std::nullopt;
}

}  // namespace tandem::arguments
