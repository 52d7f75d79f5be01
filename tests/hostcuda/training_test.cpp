// Plans train on the CUDA backend over the host's runtime: with the bits of the emulated backend, however far streams lag.

#include "tests/catch.hpp"
#include "tests/hostcuda/plans.hpp"
#include "tests/hostcuda/runtime/heap.hpp"
#include "tests/hostcuda/trained.hpp"

using namespace tandem;
using namespace tandem::tests;

namespace {

hostcuda::Settings lagging(std::uint64_t seed, hostcuda::Epilogues epilogues = hostcuda::Epilogues::bias) {
  hostcuda::Settings s = hostcuda::settings();
  s.seed = seed;
  s.epilogues = epilogues;
  return s;
}

}  // namespace

TEST_CASE("plans train on the CUDA backend with the bits of its emulated kernels, whatever the streams' delays", "[hostcuda]") {
  for (const std::string& patch : host_plans()) {
    INFO(patch);
    for (const std::string precision : {"fp64", "bf16"}) {
      const Plan plan = host_plan(patch, precision);
      const exec::RunResult emulated = on_emulated(plan);
      for (const std::uint64_t seed : {1, 2}) {
        INFO(precision << " seed " << seed);
        const WithSettings settings(lagging(seed));
        CHECK(same(on_cuda(plan), emulated));
      }
    }
  }
}

TEST_CASE("biases, sums and GELU come with a product or behind it", "[hostcuda]") {
  for (const std::string precision : {"fp64", "fp32"}) {
    const Plan plan = host_plan(R"({"training": {"fusion": "tandem-cuda"}})", precision);
    const exec::RunResult emulated = on_emulated(plan);
    for (const auto epilogues : {hostcuda::Epilogues::all, hostcuda::Epilogues::bias, hostcuda::Epilogues::none}) {
      const WithSettings settings(lagging(3, epilogues));
      const exec::RunResult here = on_cuda(plan);
      INFO(precision << " " << static_cast<int>(epilogues));
      CHECK(loss_error(here, emulated) <= (precision == "fp64" ? 1e-13 : 1e-6));
      CHECK(gradient_error(here, emulated) <= (precision == "fp64" ? 1e-12 : 1e-5));
    }
  }
}

TEST_CASE("timed algorithms change no bit where all sum alike", "[hostcuda]") {
  const Plan plan = host_plan("{}", "fp32");
  const WithSettings settings(lagging(4));
  exec::RunOptions options = cuda_options();
  const auto choices = std::make_shared<exec::device::ProductChoices>(exec::device::ProductPlace{"host", "cuBLASLt", "host", "2026-01-01"}, "a-path-that-is-not-read");
  options.make_backend = [&](Rank) { return exec::make_cuda_backend({true, choices}); };
  CHECK(same(trained(plan, options), on_emulated(plan)));
}

TEST_CASE("a step as a CUDA graph gives the bits of one that is issued", "[hostcuda]") {
  for (const char* patch : {R"({"training": {"clip_grad": 0.5}})", R"({"parallel": {"offload": {"activations": ["all"]}}})",
                            R"({"training": {"recompute": "full", "flash_attention": true}})",
                            R"({"model": {"hidden_size": 128, "ffn_hidden_size": 256}, "training": {"lora": {"rank": 3, "alpha": 6, "base": "nf4"}}})"})
    for (const std::uint64_t seed : {1, 2, 3}) {
      INFO(patch << " seed " << seed);
      const WithSettings settings(lagging(seed));
      Plan plan = host_plan(patch, "fp32");
      const exec::RunResult issued = on_emulated(plan, 5);
      plan.training.cuda_graphs = CudaGraphs::iteration;
      exec::RunOptions options = cuda_options(5);
      std::vector<std::string> notes;
      options.gather_gradients = false;
      options.on_note = [&](const std::string& note) { notes.push_back(note); };
      hostcuda::reset_counts();
      const exec::RunResult replayed = trained(plan, options);
      CHECK(hostcuda::counts().replays >= 3);
      REQUIRE(replayed.steps.size() == issued.steps.size());
      for (std::size_t s = 0; s < issued.steps.size(); ++s) CHECK(replayed.steps[s].loss == issued.steps[s].loss);
      CHECK(same(replayed.weights, issued.weights));
    }
}

TEST_CASE("the host touches no memory of the device, which would end this program while no operation runs", "[hostcuda]") {
  hostcuda::Settings guarded = lagging(5);
  guarded.guards = true;
  const Plan plan = host_plan(R"({"parallel": {"data": 2, "zero_stage": 1}})", "fp32");
  const exec::RunResult emulated = on_emulated(plan);
  {
    const WithSettings settings(guarded);
    hostcuda::apply_guards();
    CHECK(same(on_cuda(plan), emulated));
  }
  hostcuda::apply_guards();
}
