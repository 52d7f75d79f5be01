#include "exec/process/launch.hpp"

#include <charconv>
#include <cstdlib>
#include <vector>

#include "exec/process/host_list.hpp"

namespace tandem::exec {
namespace {

constexpr int kFirstJobPort = 29'400, kJobPorts = 1'000;  // so that jobs on one host get different ports

/// Reads variables and collects their problems.
class Reader {
 public:
  explicit Reader(const Environment& environment) : environment_(environment) {}

  std::optional<std::string> text(const char* name) const { return environment_(name); }

  /// An integer of at least `least`. If the variable is not set, returns `least`. If it is no such integer, records a problem and
  /// also returns `least`.
  int number(const char* name, int least, bool needed) {
    const auto value = environment_(name);
    if (!value) {
      if (needed) problem(name, "", "is not set", "set it in every process");
      return least;
    }
    int n = 0;
    const auto [end, error] = std::from_chars(value->data(), value->data() + value->size(), n);
    if (error == std::errc() && end == value->data() + value->size() && n >= least) return n;
    problem(name, *value, "is no whole number from " + std::to_string(least) + " on", "");
    return least;
  }

  void problem(const std::string& name, const std::string& value, const std::string& reason, const std::string& remedy) {
    problems_.push_back({"", name, value, reason, remedy});
  }
  void finish() const {
    if (!problems_.empty()) throw LaunchError(problems_);
  }

 private:
  const Environment& environment_;
  std::vector<Problem> problems_;
};

void require_below(Reader& in, const char* number, int value, const char* count, int most) {
  if (value >= most)
    in.problem(number, std::to_string(value), "contradicts " + std::string(count) + "=" + std::to_string(most) + ": numbers begin with 0", "");
}

/// Checks the variables about ranks on one host, which torchrun and other launchers set.
void check_local(Reader& in, int processes) {
  if (!in.text("LOCAL_RANK") || !in.text("LOCAL_WORLD_SIZE")) return;
  const int local = in.number("LOCAL_RANK", 0, true), here = in.number("LOCAL_WORLD_SIZE", 1, true);
  require_below(in, "LOCAL_RANK", local, "LOCAL_WORLD_SIZE", here);
  if (here > processes)
    in.problem("LOCAL_WORLD_SIZE", std::to_string(here), "contradicts WORLD_SIZE=" + std::to_string(processes), "");
}

int port_of(Reader& in, int wished, int otherwise) {
  if (wished > 0) return wished;
  if (!in.text("MASTER_PORT")) return otherwise;
  const int port = in.number("MASTER_PORT", 1, true);
  const bool held = in.text("TORCHELASTIC_USE_AGENT_STORE").value_or("") == "True";
  if (port + (held ? 1 : 0) > 65'535) in.problem("MASTER_PORT", std::to_string(port), "leaves no port below 65,536", "give --port");
  return port + (held ? 1 : 0);
}

LaunchSpec from_torchrun(Reader& in, int port) {
  LaunchSpec spec{"torchrun", in.number("RANK", 0, true), in.number("WORLD_SIZE", 1, true), in.text("MASTER_ADDR").value_or(""), 0};
  require_below(in, "RANK", spec.process, "WORLD_SIZE", spec.processes);
  check_local(in, spec.processes);
  if (spec.address.empty()) in.problem("MASTER_ADDR", "", "is not set", "set it to the host of process 0");
  spec.port = port_of(in, port, 0);
  if (spec.port == 0) in.problem("MASTER_PORT", "", "is not set", "set it, or give --port");
  return spec;
}

/// The job's first host, on which Slurm starts process 0.
std::string first_host(Reader& in) {
  const char* name = in.text("SLURM_STEP_NODELIST") ? "SLURM_STEP_NODELIST" : "SLURM_JOB_NODELIST";
  const auto list = in.text(name);
  if (!list) {
    in.problem("SLURM_JOB_NODELIST", "", "is not set, and neither is MASTER_ADDR", "set MASTER_ADDR to the host of process 0");
    return "";
  }
  const auto hosts = expand_host_list(*list);
  if (hosts.empty()) in.problem(name, *list, "is no list of hosts", "set MASTER_ADDR to the host of process 0");
  return hosts.empty() ? "" : hosts.front();
}

LaunchSpec from_slurm(Reader& in, int port) {
  const char* count = in.text("SLURM_STEP_NUM_TASKS") ? "SLURM_STEP_NUM_TASKS" : "SLURM_NTASKS";
  LaunchSpec spec{"Slurm", in.number("SLURM_PROCID", 0, true), in.number(count, 1, true), "", 0};
  require_below(in, "SLURM_PROCID", spec.process, count, spec.processes);
  const auto address = in.text("MASTER_ADDR");
  spec.address = address ? *address : first_host(in);
  spec.port = port_of(in, port, kFirstJobPort + in.number("SLURM_JOB_ID", 0, false) % kJobPorts);
  return spec;
}

LaunchSpec from_open_mpi(Reader& in, int port) {
  LaunchSpec spec{"Open MPI", in.number("OMPI_COMM_WORLD_RANK", 0, true), in.number("OMPI_COMM_WORLD_SIZE", 1, true), "", 0};
  require_below(in, "OMPI_COMM_WORLD_RANK", spec.process, "OMPI_COMM_WORLD_SIZE", spec.processes);
  const bool one_host = in.number("OMPI_COMM_WORLD_LOCAL_SIZE", 1, false) == spec.processes;
  spec.address = in.text("MASTER_ADDR").value_or(one_host ? "127.0.0.1" : "");
  if (spec.address.empty()) in.problem("MASTER_ADDR", "", "is not set", "set it to the host of process 0, or use --launch mpi");
  spec.port = port_of(in, port, kFirstJobPort);
  return spec;
}

}  // namespace

Environment process_environment() {
  return [](const char* name) -> std::optional<std::string> {
    const char* value = std::getenv(name);
    return value != nullptr && *value != '\0' ? std::optional<std::string>(value) : std::nullopt;
  };
}

LaunchSpec launch_from_environment(const Environment& environment, int port) {
  Reader in(environment);
  LaunchSpec spec;
  if (in.text("RANK") || in.text("WORLD_SIZE")) spec = from_torchrun(in, port);
  else if (in.text("SLURM_PROCID")) spec = from_slurm(in, port);
  else if (in.text("OMPI_COMM_WORLD_RANK")) spec = from_open_mpi(in, port);
  else in.problem("--launch", "env", "no launcher has said which process this is", "start it with torchrun or srun, or set RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT");
  in.finish();
  return spec;
}

std::optional<int> process_number(const Environment& environment) {
  for (const char* name : {"RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID"}) {
    const auto value = environment(name);
    if (!value) continue;
    int n = 0;
    const auto [end, error] = std::from_chars(value->data(), value->data() + value->size(), n);
    return error == std::errc() && end == value->data() + value->size() ? std::optional(n) : std::nullopt;
  }
  return std::nullopt;
}

void require_mpi_started(const Environment& environment, int processes) {
  if (processes > 1) return;
  for (const char* name : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "WORLD_SIZE", "SLURM_STEP_NUM_TASKS"}) {
    const auto value = environment(name);
    if (value && std::atoll(value->c_str()) > 1)
      throw LaunchError(Problem{"", name, *value, "contradicts MPI, which knows of one process",
                                "start the program with this MPI's mpirun, or use --launch env"});
  }
}

}  // namespace tandem::exec
