#include "models/arguments/command_line.hpp"

#include <nlohmann/json.hpp>

#include "models/base/error.hpp"
#include "tests/catch.hpp"

using namespace tandem;
using nlohmann::json;

namespace {

arguments::Arguments read(const std::string& text) {
  const auto name = [](const std::string& option) { return arguments::ArgumentName{option, false, option == "lr"}; };
  return arguments::command_arguments(text, name, "run.args");
}

}  // namespace

TEST_CASE("variables in front of a command are arguments of the environment") {
  const arguments::Arguments got = read("NEURON_FUSE_SOFTMAX=1 XLA_USE_BF16=1 torchrun --nproc-per-node 32 pretrain_gpt.py --bf16");
  CHECK(*got.values == json({{"nproc-per-node", 32}, {"bf16", true}, {"env", {{"NEURON_FUSE_SOFTMAX", 1}, {"XLA_USE_BF16", 1}}}}));
  CHECK(read("export A=b\ntorchrun x.py --bf16").values->at("env") == json({{"A", "b"}}));
  CHECK(read("x.py --data-path A=b").values->at("data-path") == "A=b");  // behind the program it is a value
  CHECK_FALSE(read("x.py --lr 1e-4 a=b").values->contains("env"));
}

TEST_CASE("a command inside of a shell's is read, and the ranks of mpirun") {
  const arguments::Arguments inner = read("deepspeed --num_nodes 4 --no_python /usr/bin/bash -c \"cd X && python3 -u ./pretrain_gpt.py --lr 1e-4\"");
  CHECK(inner.program == "pretrain_gpt.py");
  CHECK(inner.values->at("lr") == 1e-4);
  CHECK(inner.values->at("num-nodes") == 4);
  CHECK(read("srun -n 16 bash -lc 'python x.py --lr 1e-4'").values->at("lr") == 1e-4);
  const arguments::Arguments ranks = read("mpirun --allow-run-as-root -np 16 python x.py --fp16");
  CHECK(ranks.values->at("np") == 16);
  CHECK(ranks.values->at("allow-run-as-root") == true);
}

TEST_CASE("an option of a launcher has one value, and the program's options stay whole") {
  // slurm.schedmd.com/srun.html: -N/--nodes, -n/--ntasks; docs.open-mpi.org mpirun(1): -n, -np, --np
  for (const std::string launcher : {"srun --nodes 2 --ntasks-per-node 8 python", "srun --exclusive --nodes 2 --ntasks-per-node 8 /usr/bin/python3.11 -u",
                                     "srun --exclusive --nodes 2 --ntasks-per-node 8 bash -c \"python -u x.py --window-size 1 2\" #"}) {
    const arguments::Arguments got = read(launcher + " x.py --window-size 1 2");
    CAPTURE(launcher);
    CHECK(got.program == "x.py");
    CHECK(got.values->at("nodes") == 2);
    CHECK(got.values->at("ntasks-per-node") == 8);
    CHECK(got.values->at("window-size") == json({1, 2}));
    CHECK(got.launcher.contains("nodes"));
    CHECK_FALSE(got.launcher.contains("window-size"));
  }
  CHECK(read("--window-size 1 2 --fp16").values->at("window-size") == json({1, 2}));  // no program, so no launcher
}

TEST_CASE("short options of launchers count processes and nodes") {
  const auto of = [](const std::string& launcher) {
    const json values = *read(launcher + " python x.py --fp16").values;
    return std::pair(values.value("np", 0), values.value("nodes", 0));
  };
  CHECK(of("srun -N 2 -n 16") == std::pair(16, 2));
  CHECK(of("srun -N2 -n16 -J name") == std::pair(16, 2));
  CHECK(of("srun -n 16 ionice -c 2 -n 4") == std::pair(16, 0));  // of another tool
  CHECK(of("srun -n 16 conda run -n megatron") == std::pair(16, 0));
  CHECK(of("mpirun -n 16") == std::pair(16, 0));
  CHECK(of("bin/mpirun -np 16 -N 8") == std::pair(16, 0));  // ranks of a node
  CHECK(of("mpirun --np 16") == std::pair(16, 0));
  CHECK(of("nice -n 10 numactl -N 0 -m 0") == std::pair(0, 0));
}

TEST_CASE("a module in place of a script is the program, unless it is a launcher") {
  const arguments::Arguments got = read("torchrun --nnodes 2 -m pretrain_gpt --lr 1");
  CHECK(got.program == "pretrain_gpt.py");
  CHECK(got.values->at("nnodes") == 2);
  CHECK(read("torchrun --module pretrain_gpt --lr 1").program == "pretrain_gpt.py");
  CHECK(read("python -m torch.distributed.launch --nproc_per_node 8 pretrain_gpt.py --lr 1").program == "pretrain_gpt.py");
}

TEST_CASE("a command that starts a script has no options of its own") {
  CHECK(arguments::script_of("HL_NUM_NODES=1 HL_PP=2 scripts/run_bloom13b.sh\n") == "scripts/run_bloom13b.sh");
  CHECK(arguments::script_of("bash run.sh --num-layers 4").empty());
  CHECK(arguments::script_of("{\"a\": \"run.sh\"}").empty());
  CHECK(arguments::script_of("no command").empty());
  CHECK(arguments::script_of("it's a note").empty());
  CHECK(arguments::script_of("run.sh ''") == "run.sh");
}

TEST_CASE("an option that lacks its value is refused by name") {
  CHECK_THROWS_WITH(read("x.py --lr --bf16"), Catch::Contains("--lr: has no value"));
  CHECK_THROWS_WITH(read("x.py --bf16 --lr"), Catch::Contains("--lr: has no value"));
  CHECK(read("x.py --bf16 --lr -1").values->at("lr") == -1);
}

TEST_CASE("a backslash between double quotes escapes as in a shell") {
  CHECK(read(R"(bash -c "x.py --data-path \"a b\" --num-layers 4")").values->at("data-path") == "a b");
  CHECK(read(R"(x.py --json "{\"a\": 1}" --path 'a\b' --other "a\b")").values->at("other") == "a\\b");
}
