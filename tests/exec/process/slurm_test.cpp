// Environments that a real Slurm made (22.05.8 of Debian 12, two nodes), less what says nothing of processes, and host lists that its
// `scontrol show hostnames` wrote out.
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "exec/process/host_list.hpp"
#include "exec/process/launch.hpp"
#include "tests/catch.hpp"

using namespace tandem::exec;

namespace {

/// The last process of: srun -N2 -n4
constexpr auto kLastOfFour = R"(SLURMD_NODENAME=gpu02
SLURM_CPUS_ON_NODE=1
SLURM_GTIDS=2,3
SLURM_JOBID=1
SLURM_JOB_CPUS_PER_NODE=1(x2)
SLURM_JOB_ID=1
SLURM_JOB_NODELIST=gpu[01-02]
SLURM_JOB_NUM_NODES=2
SLURM_LOCALID=1
SLURM_NNODES=2
SLURM_NODEID=1
SLURM_NODELIST=gpu[01-02]
SLURM_NPROCS=4
SLURM_NTASKS=4
SLURM_OVERCOMMIT=1
SLURM_PROCID=3
SLURM_STEPID=0
SLURM_STEP_ID=0
SLURM_STEP_NODELIST=gpu[01-02]
SLURM_STEP_NUM_NODES=2
SLURM_STEP_NUM_TASKS=4
SLURM_STEP_TASKS_PER_NODE=2(x2)
SLURM_TASKS_PER_NODE=2(x2))";

/// The only process of: srun -N1 -n1 -w gpu02, in a job of two nodes
constexpr auto kSecondNode = R"(SLURMD_NODENAME=gpu02
SLURM_CPUS_ON_NODE=1
SLURM_DISTRIBUTION=cyclic
SLURM_GTIDS=0
SLURM_JOBID=3
SLURM_JOB_CPUS_PER_NODE=1(x2)
SLURM_JOB_CPUS_PER_NODE_PACK_GROUP_0=1(x2)
SLURM_JOB_ID=3
SLURM_JOB_NODELIST=gpu[01-02]
SLURM_JOB_NUM_NODES=2
SLURM_LOCALID=0
SLURM_NNODES=1
SLURM_NODEID=0
SLURM_NODELIST=gpu[01-02]
SLURM_NPROCS=1
SLURM_NTASKS=1
SLURM_OVERCOMMIT=1
SLURM_PROCID=0
SLURM_STEPID=0
SLURM_STEP_ID=0
SLURM_STEP_NODELIST=gpu02
SLURM_STEP_NUM_NODES=1
SLURM_STEP_NUM_TASKS=1
SLURM_STEP_TASKS_PER_NODE=1
SLURM_TASKS_PER_NODE=1)";

/// The script of that job itself, which no srun started
constexpr auto kScript = R"(SLURMD_NODENAME=gpu01
SLURM_CPUS_ON_NODE=1
SLURM_GTIDS=0
SLURM_JOBID=3
SLURM_JOB_CPUS_PER_NODE=1(x2)
SLURM_JOB_ID=3
SLURM_JOB_NODELIST=gpu[01-02]
SLURM_JOB_NUM_NODES=2
SLURM_LOCALID=0
SLURM_NNODES=2
SLURM_NODEID=0
SLURM_NODELIST=gpu[01-02]
SLURM_OVERCOMMIT=1
SLURM_PROCID=0
SLURM_TASKS_PER_NODE=1(x2))";

LaunchSpec launch(const std::string& recorded) {
  std::map<std::string, std::string> variables;
  std::istringstream lines(recorded);
  for (std::string line; std::getline(lines, line);) variables[line.substr(0, line.find('='))] = line.substr(line.find('=') + 1);
  const auto value = [&](const char* name) { return variables.contains(name) ? std::optional(variables.at(name)) : std::nullopt; };
  return launch_from_environment(value, 0);
}

}  // namespace

TEST_CASE("a process that srun started knows its number and the first host") {
  const LaunchSpec spec = launch(kLastOfFour);
  CHECK(spec.launcher == "Slurm");
  CHECK(spec.process == 3);
  CHECK(spec.processes == 4);
  CHECK(spec.address == "gpu01");
  CHECK(spec.port == 29401);
}

TEST_CASE("a step on some of a job's nodes has process 0 on the first of its own") {
  const LaunchSpec spec = launch(kSecondNode);
  CHECK(spec.process == 0);
  CHECK(spec.processes == 1);
  CHECK(spec.address == "gpu02");
}

TEST_CASE("a job's script without srun is refused, since it is no process of several") {
  CHECK_THROWS_WITH(launch(kScript), Catch::Contains("SLURM_NTASKS: is not set"));
}

TEST_CASE("host lists are what scontrol wrote") {
  const std::vector<std::pair<std::string, std::string>> recorded{
      {"gpu[01-02]", "gpu01 gpu02"},
      {"n[1,3-5,007]", "n1 n3 n4 n5 n007"},
      {"a1,b[2-3]c[10-11]", "a1 b2c10 b2c11 b3c10 b3c11"},
      {"x[098-101]", "x098 x099 x100 x101"},
      {"tux[0-1,3],tux9", "tux0 tux1 tux3 tux9"},
      {"n[00-02,2]", "n00 n01 n02 n2"},
  };
  for (const auto& [list, hosts] : recorded) {
    std::string found;
    for (const std::string& host : expand_host_list(list)) found += (found.empty() ? "" : " ") + host;
    CHECK(found == hosts);
  }
}
