// What launchers say: environments as torchrun, Slurm and Open MPI make them, and those that cannot be.
#include <map>

#include "exec/process/host_list.hpp"
#include "exec/process/launch.hpp"
#include "tests/catch.hpp"

using namespace tandem;
using namespace tandem::exec;

namespace {

using Variables = std::map<std::string, std::string>;
using Names = std::vector<std::string>;

Environment environment(const Variables& v) {
  return [v](const char* name) { return v.contains(name) ? std::optional(v.at(name)) : std::nullopt; };
}

/// As torchrun --nnodes 2 --nproc-per-node 4 gives them to the second process of the second host.
const Variables kTorchrun{{"RANK", "5"}, {"WORLD_SIZE", "8"}, {"LOCAL_RANK", "1"}, {"LOCAL_WORLD_SIZE", "4"}, {"GROUP_RANK", "1"},
                          {"MASTER_ADDR", "node01"}, {"MASTER_PORT", "29500"}, {"TORCHELASTIC_RUN_ID", "none"},
                          {"TORCHELASTIC_USE_AGENT_STORE", "True"}};

/// As srun -N 4 -n 4 gives them to the third process.
const Variables kSlurm{{"SLURM_PROCID", "2"}, {"SLURM_NTASKS", "4"}, {"SLURM_LOCALID", "0"}, {"SLURM_NNODES", "4"},
                       {"SLURM_JOB_NODELIST", "node[01-03,7]"}, {"SLURM_JOB_ID", "123456"}};

Variables changed(Variables v, const Variables& with) {
  for (const auto& [name, value] : with) v[name] = value;
  return v;
}

std::string refusal(const Variables& v) {
  try {
    launch_from_environment(environment(v), 0);
  } catch (const LaunchError& e) {
    return e.what();
  }
  return "";
}

}  // namespace

TEST_CASE("Host lists are written out, with more than one bracket and an end behind the last") {
  CHECK(expand_host_list("node[01-03,7]") == Names{"node01", "node02", "node03", "node7"});
  CHECK(expand_host_list("login,gpu[9-11]") == Names{"login", "gpu9", "gpu10", "gpu11"});
  CHECK(expand_host_list("r[1-2]n[08-09]-ib") == Names{"r1n08-ib", "r1n09-ib", "r2n08-ib", "r2n09-ib"});
  CHECK(expand_host_list("alone") == Names{"alone"});
  for (const char* bad : {"", "node[", "node]", "node[3-1]", "node[a]", "a,,b", "node[1-]", "node[1-999999999]", "n[[1]]", "n[]"})
    CHECK(expand_host_list(bad).empty());
}

TEST_CASE("torchrun's variables say where process 0 is, one port above its agent's") {
  const LaunchSpec spec = launch_from_environment(environment(kTorchrun), 0);
  CHECK(spec.process == 5);
  CHECK(spec.processes == 8);
  CHECK(spec.address == "node01");
  CHECK(spec.port == 29501);
  CHECK(launch_from_environment(environment(kTorchrun), 4000).port == 4000);
  CHECK(launch_from_environment(environment(changed(kTorchrun, {{"TORCHELASTIC_USE_AGENT_STORE", "False"}})), 0).port == 29500);
  CHECK(launch_from_environment(environment(changed(kTorchrun, kSlurm)), 0).processes == 8);  // torchrun inside srun
}

TEST_CASE("Slurm's variables say the same, with the first host of the job") {
  const LaunchSpec spec = launch_from_environment(environment(kSlurm), 0);
  CHECK(spec.process == 2);
  CHECK(spec.processes == 4);
  CHECK(spec.address == "node01");
  CHECK(spec.port == 29400 + 456);
  const auto own = changed(kSlurm, {{"MASTER_ADDR", "other"}, {"MASTER_PORT", "5000"}, {"SLURM_STEP_NUM_TASKS", "3"}});
  CHECK(launch_from_environment(environment(own), 0).address == "other");
  CHECK(launch_from_environment(environment(own), 0).port == 5000);
  CHECK(launch_from_environment(environment(own), 0).processes == 3);
}

TEST_CASE("Variables that contradict each other are refused by name") {
  CHECK(refusal(changed(kTorchrun, {{"RANK", "8"}})).find("RANK = 8: contradicts WORLD_SIZE=8") != std::string::npos);
  CHECK(refusal(changed(kTorchrun, {{"LOCAL_RANK", "4"}})).find("LOCAL_RANK = 4: contradicts LOCAL_WORLD_SIZE=4") != std::string::npos);
  CHECK(refusal(changed(kTorchrun, {{"LOCAL_WORLD_SIZE", "16"}})).find("contradicts WORLD_SIZE=8") != std::string::npos);
  CHECK(refusal(changed(kTorchrun, {{"WORLD_SIZE", "four"}})).find("WORLD_SIZE = four: is no whole number") != std::string::npos);
  CHECK(refusal(changed(kSlurm, {{"SLURM_PROCID", "4"}})).find("SLURM_PROCID = 4: contradicts SLURM_NTASKS=4") != std::string::npos);
  CHECK(refusal(changed(kSlurm, {{"SLURM_JOB_NODELIST", "node[1"}})).find("is no list of hosts") != std::string::npos);
  CHECK(refusal({{"RANK", "0"}, {"WORLD_SIZE", "2"}}).find("MASTER_ADDR: is not set") != std::string::npos);
  CHECK(refusal({}).find("no launcher has said which process this is") != std::string::npos);
}

TEST_CASE("A launcher of several processes whom MPI does not know is refused") {
  CHECK_THROWS_AS(require_mpi_started(environment(kTorchrun), 1), LaunchError);
  CHECK_NOTHROW(require_mpi_started(environment(kTorchrun), 8));
  CHECK_NOTHROW(require_mpi_started(environment({}), 1));
}
