// Threads of a rank change no bit: losses, gradients, weights and checkpoints of runs are those of one thread.

#include <algorithm>
#include <atomic>
#include <bit>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <sstream>
#include <thread>

#include "exec/checkpoint/folder.hpp"
#include "exec/process/world.hpp"
#include "tests/agree/features.hpp"
#include "tests/agree/layouts.hpp"
#include "tests/catch.hpp"
#include "tests/exec/state/kept_files.hpp"
#include "tests/temporary_folder.hpp"
#include "topology/plan_reader.hpp"

using namespace tandem;

namespace {

constexpr std::int64_t kSteps = 3;

struct Trained {
  exec::RunResult result;
  std::string checkpoint;
};

std::string bytes_of(const std::filesystem::path& file) {
  std::ostringstream out;
  out << std::ifstream(file, std::ios::binary).rdbuf();
  return out.str();
}

Trained trained(const Plan& plan, exec::BackendFactory make_backend) {
  const tests::TemporaryFolder place;
  const auto file = place.path() / "state.safetensors";
  GraphCache graphs(plan);
  exec::World world;
  const auto keeper = exec::make_file_keeper(exec::test::always(file.string(), {to_json(plan), 0}, 1), world);
  exec::RunOptions options;
  options.steps = kSteps;
  options.gather_gradients = options.gather_weights = true;
  options.keeper = keeper.get();
  options.make_backend = std::move(make_backend);
  exec::RunResult result = exec::run(graphs, tests::HashTokens(plan.model.vocab_size), options);
  return {std::move(result), bytes_of(file)};
}

bool same_bits(const std::vector<double>& a, const std::vector<double>& b) {
  const auto bits = [](double x) { return std::bit_cast<std::uint64_t>(x); };
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [&](double x, double y) { return bits(x) == bits(y); });
}

bool same_bits(const std::vector<exec::GatheredTensor>& a, const std::vector<exec::GatheredTensor>& b) {
  const auto same = [](const auto& x, const auto& y) { return same_bits(x.values, y.values); };
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), same);
}

void check_same(const Trained& run, const Trained& one) {
  REQUIRE(run.result.steps.size() == kSteps);
  for (std::size_t s = 0; s < run.result.steps.size(); ++s) {
    INFO("step " << s);
    const auto &a = run.result.steps[s], &b = one.result.steps[s];
    CHECK(same_bits({a.loss, a.grad_norm}, {b.loss, b.grad_norm}));
    CHECK(same_bits(run.result.gradients[s], one.result.gradients[s]));
  }
  CHECK(same_bits(run.result.weights, one.result.weights));
  CHECK(run.checkpoint == one.checkpoint);
  CHECK_FALSE(run.checkpoint.empty());
}

Plan patched(const std::vector<std::string>& patches) { return parse_plan(tests::small_json(patches, 2), "threads"); }

std::string precision(const std::string& name) { return R"({"training": {"precision": ")" + name + R"("}})"; }

const std::string kLlama = R"({"model": {"family": "llama"}})", kExperts = R"({"model": {"moe": {"num_experts": 4, "experts_per_token": 2}}})";

const std::string kRecurrence = R"({"model": {"attention_gate": true, "recurrence": {"heads": 4, "key_heads": 2, "key_dim": 6, "value_dim": 5, "layers": "ra"}}})";

const std::string kMamba = R"({"model": {"sublayers": "mf", "recurrence": {"rule": "mamba2", "heads": 4, "key_heads": 2, "key_dim": 6, "value_dim": 5,
                                                                      "conv_bias": true, "layers": "rraa"}}})";
const std::string kGathered = R"({"parallel": {"data": 2, "expert": 2, "token_dispatcher": "allgather"}})";

std::vector<std::pair<std::string, Plan>> plans() {
  const std::string dropout = R"({"training": {"dropout": {"hidden": 0.1, "attention": 0.1}}})";
  return {{"gpt", patched({precision("fp32")})},
          {"gpt, dropout", patched({precision("fp32"), dropout})},
          {"gpt, flash, dropout", patched({precision("fp32"), dropout, R"({"training": {"flash_attention": true}})"})},
          {"gpt, fp64", patched({precision("fp64")})},
          {"gpt, bf16", patched({precision("bf16")})},
          {"llama", patched({kLlama, precision("fp32")})},
          {"llama, flash", patched({kLlama, precision("fp32"), R"({"training": {"flash_attention": true}})"})},
          {"llama, bf16, zero 3", patched({kLlama, precision("bf16"), R"({"parallel": {"data": 2, "zero_stage": 3}})"})},
          {"recurrence", patched({kLlama, precision("fp32"), kRecurrence})},
          {"recurrence of one sublayer, bf16", patched({kLlama, precision("bf16"), kMamba})},
          {"experts", patched({kExperts, precision("fp32")})},
          {"experts that gather tokens", patched({kExperts, precision("fp32"), kGathered})},
          {"lamb", patched({precision("fp32"), R"({"training": {"optimizer": "lamb"}})"})},
          {"sgd", patched({precision("fp32"), R"({"training": {"optimizer": "sgd", "momentum": 0.9}})"})},
          {"muon", patched({kLlama, precision("fp32"), R"({"training": {"optimizer": "muon"}})"})},
          {"muon, bf16", patched({kExperts, precision("bf16"), R"({"training": {"optimizer": "muon"}})"})},
          {"tensor and sequence", patched({precision("fp32"), R"({"parallel": {"tensor": 2, "sequence_parallel": true}})"})}};
}

}  // namespace

TEST_CASE("runs have the same bits whatever the number of threads of a rank", "[tsan]") {
  for (const auto& [name, plan] : plans()) {
    const Trained one = trained(plan, [](Rank) { return exec::make_cpu_backend(); });
    for (const std::int64_t threads : {1, 2, 3, 4}) {
      INFO(name << ", " << threads << " threads");
      check_same(trained(plan, [=](Rank) { return exec::make_eager_cpu_backend(threads); }), one);
    }
  }
}

TEST_CASE("streams of a rank that compute at once share its threads and change no bit", "[tsan]") {
  const Plan plan = patched({precision("fp32"), R"({"parallel": {"data": 2, "overlap_grad_reduce": true, "bucket_bytes": 2000}})"});
  const Trained one = trained(plan, [](Rank) { return exec::make_cpu_backend(); });
  check_same(trained(plan, [](Rank) { return exec::make_async_backend(exec::make_eager_cpu_backend(3)); }), one);
}

namespace {

/// The most threads that this process has while `body` runs.
std::int64_t threads_during(const std::function<void()>& body) {
  std::atomic<bool> done = false;
  std::int64_t most = 0;
  std::thread watch([&] {
    while (!done) {
      const std::filesystem::directory_iterator tasks("/proc/self/task");
      most = std::max<std::int64_t>(most, std::distance(begin(tasks), end(tasks)));
    }
  });
  body();
  done = true;
  watch.join();
  return most;
}

}  // namespace

TEST_CASE("a run computes with the threads that its plan names") {
  // Its loops are long enough to start threads, which stay until the run ends.
  Plan plan = patched({precision("fp32"), R"({"model": {"hidden_size": 64, "num_attention_heads": 4}, "training": {"seq_length": 128}})"});
  Trained one, three;
  const std::int64_t alone = threads_during([&] { one = trained(plan, {}); });
  plan.cluster.threads_per_rank = 3;
  CHECK(threads_during([&] { three = trained(plan, {}); }) == alone + 2 * plan.world_size());
  CHECK(same_bits(three.result.weights, one.result.weights));
}
