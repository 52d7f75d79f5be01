#include "models/arguments/launcher.hpp"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <sstream>

#include "models/base/error.hpp"
#include "models/base/files.hpp"
#include "models/base/presets.hpp"

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

using nlohmann::json;
using Count = std::optional<std::int64_t>;

constexpr std::int64_t kMostProcesses = 100'000'000;  ///< of nodes, or of one: products of two stay whole

Count whole(const json& object, const char* name) {
  const auto there = object.find(name);
  if (there == object.end() || !there->is_number_integer() || *there < 1 || *there > kMostProcesses) return std::nullopt;
  return there->get<std::int64_t>();
}

Count product(const Count& a, const Count& b) { return a && b ? Count(*a * *b) : std::nullopt; }

/// Devices in a list of numbers: 0,1,2,3.
Count listed(const json& devices) {
  if (devices.is_array()) return static_cast<std::int64_t>(devices.size());
  return devices.is_number_integer() ? Count(1) : std::nullopt;
}

Count visible(const json& environment) {
  for (const char* name : {"CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ASCEND_RT_VISIBLE_DEVICES"})
    if (environment.contains(name)) return listed(environment[name]);
  return std::nullopt;
}

/// Devices in "localhost:0,1" or "worker-1:0,1,2,3@worker-2:0,1,2,3"; nothing if a host is there whole.
Count included(const std::string& text) {
  std::int64_t devices = 0;
  std::istringstream hosts(text);
  for (std::string host; std::getline(hosts, host, '@');) {
    const std::size_t colon = host.find(':');
    if (colon == std::string::npos) return std::nullopt;
    devices += 1 + std::count(host.begin() + static_cast<std::ptrdiff_t>(colon), host.end(), ',');
  }
  return devices > 0 ? Count(devices) : std::nullopt;
}

/// Slots of the first hosts in a file with lines "worker-1 slots=8".
std::int64_t slots_of(const std::string& path, const Count& hosts, const Count& devices) {
  std::int64_t out = 0, read = 0;
  std::istringstream lines(read_text(path));
  for (std::string line; std::getline(lines, line) && (!hosts || read < *hosts);) {
    const std::size_t at = line.find("slots=");
    if (line.starts_with('#') || at == std::string::npos) continue;
    const json slots = argument_value(line.substr(at + 6, line.find_first_of(" \t\r", at) - at - 6));
    if (!slots.is_number_integer()) continue;
    out += devices ? std::min(*devices, slots.get<std::int64_t>()) : slots.get<std::int64_t>();
    ++read;
  }
  if (out > 0) return out;
  throw ConfigError(Problem{path, "hostfile", "", "has no host with slots", "write a line \"NAME slots=8\" for each"});
}

Count of_deepspeed(const json& said, const json& environment, const std::string& file) {
  for (const char* name : {"include", "i"})
    if (said.contains(name) && said[name].is_string()) return included(said[name].get<std::string>());
  const Count nodes = whole(said, "num_nodes"), devices = whole(said, "num_gpus");
  if (said.contains("hostfile") && said["hostfile"].is_string()) {
    const std::string path = beside(said["hostfile"].get<std::string>(), file);
    if (file_state(path).kind != FileKind::absent) return slots_of(path, nodes, devices);
    return product(nodes, devices);
  }
  return product(nodes.value_or(1), devices ? devices : visible(environment));
}

Count of_torchrun(const json& said, const json& environment) {
  const Count nodes = said.contains("nnodes") ? whole(said, "nnodes") : Count(1);
  if (!said.contains("nproc_per_node")) return nodes;
  const bool all = said["nproc_per_node"] == "gpu" || said["nproc_per_node"] == "auto";
  return product(nodes, all ? visible(environment) : whole(said, "nproc_per_node"));
}

Count of_tasks(const json& values) {
  for (const char* name : {"np", "ntasks"})
    if (const Count n = whole(values, name)) return n;
  return product(whole(values, "nodes"), whole(values, "ntasks_per_node"));
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

std::string launcher_of_module(std::string_view name) {
  if (name.starts_with("torch.distributed")) return "torchrun";
  if (name.starts_with("deepspeed.")) return "deepspeed";
  return name.starts_with("accelerate.") ? "accelerate" : "";
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

Count process_count_of(const Arguments& command, bool each_visible, const std::string& file) {
  const json environment = command.values->value("env", json::object());
  const json& said = *command.launched;
  const auto has = [&](const char* name) {
    return std::find(command.launchers.begin(), command.launchers.end(), name) != command.launchers.end();
  };
  if (has("accelerate")) return std::nullopt;
  if (has("deepspeed")) return of_deepspeed(said, environment, file);
  if (has("torchrun") || said.contains("nproc_per_node")) return of_torchrun(said, environment);
  const Count nodes = environment.contains("NNODES") ? whole(environment, "NNODES") : Count(1);
  if (environment.contains("NPROC_PER_NODE")) return product(nodes, whole(environment, "NPROC_PER_NODE"));
  if (const Count tasks = of_tasks(*command.values)) return tasks;
  if (each_visible) return product(nodes, visible(environment));
  return visible(environment) == 1 ? Count(1) : std::nullopt;
}

}  // namespace tandem::arguments
