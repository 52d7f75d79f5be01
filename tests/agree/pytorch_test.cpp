// Two-layer models of every family against PyTorch, which trained them in fp64 (tests/fixtures), whole and spread over ranks.

#include "tests/agree/fixture.hpp"
#include "tests/backends.hpp"

using namespace tandem;
using namespace tandem::tests;

namespace {

constexpr double kDouble = 1e-9;
/// Rounding of 6e-8 amplified over 20 steps whose update divides by sqrt(v).
constexpr double kSingle = 1e-4;
/// CUDA's kernels, emulated, reach 1.03e-4 in the norm of gemma/moe's step 16, and stay below 1e-9 in fp64.
constexpr double kSingleOfDevice = 2e-4;

double single() {
  const TestBackend backend = test_backend();
  return backend == TestBackend::emulated || backend == TestBackend::cuda ? kSingleOfDevice : kSingle;
}

const char* const kDense[] = {"gpt", "llama", "qwen3", "bloom", "bert/post", "bert/pre", "bert/post_add",
                              "window/sliding", "window/chunked", "latent/compressed", "latent/direct", "blocks/sandwich",
                              "blocks/one_norm", "blocks/two_norms", "blocks/behind", "blocks/capped", "blocks/phi", "mtp/dense",
                              "mtp/tied", "mtp/biased", "window/heads", "gemma/dense", "sparse/chosen", "sparse/all", "hybrid/delta", "hybrid/mamba"};
const char* const kExperts[] = {"moe/mixtral", "moe/switch", "moe/shared", "moe/deepseek", "moe/unscaled", "moe/z", "moe/z-sigmoid", "moe/llama4",
                               "moe/qwen2", "window/gpt-oss", "mtp/deepseek", "window/mimo", "gemma/moe", "sparse/deepseek"};

void check(const std::string& name, FixtureLayout layout) {
  const json f = read_fixture(name);
  const FixtureData data(f);
  check_against_pytorch(name, layout, data, kDouble);
  layout.precision = "fp32";
  check_against_pytorch(name, layout, data, single());
}

/// Each model in fp64 and fp32.
void check_all(const FixtureLayout& layout) {
  for (const char* name : kDense) check(name, layout);
  for (const char* name : kExperts) check(name, layout);
}

}  // namespace

TEST_CASE("two-layer models give PyTorch's logits, gradients, losses and weights over 20 AdamW steps", "[emulated]") {
  check_all({});
}

TEST_CASE("so do they on two stages") {
  check_all(spread(1, 2, 1, 0));
}

TEST_CASE("so do they on two tensor ranks, with sequence parallelism but where experts have a capacity") {
  check_all(spread(2, 1, 1, 0));
}

TEST_CASE("so do they on two data ranks with ZeRO 3") {
  check_all(spread(1, 1, 2, 3));
}

TEST_CASE("so do they on two tensor ranks, stages and data ranks at once, with ZeRO 2", "[emulated]") {
  check_all(spread(2, 2, 2, 2));
}

TEST_CASE("so do experts on two expert ranks, with and without ZeRO 3") {
  FixtureLayout l = spread(1, 1, 2, GENERATE(0, 3));
  l.expert = 2;
  for (const char* name : {"moe/switch", "moe/z", "moe/shared", "moe/deepseek", "moe/llama4", "moe/qwen2", "mtp/deepseek", "window/mimo",
                           "gemma/moe", "sparse/deepseek"})
    check(name, l);
}

namespace {

constexpr const char* kMuon[] = {"muon/grouped", "muon/plain", "muon/experts"};

/// Newton-Schulz iterations multiply small singular values by up to 3.4445 each, and so what rounding of 6e-8 makes of them.
constexpr double kSingleOfMuon = 1e-3;

void check_muon(const std::string& name, FixtureLayout layout) {
  const json f = read_fixture(name);
  const FixtureData data(f);
  check_against_pytorch(name, layout, data, kDouble);
  layout.precision = "fp32";
  check_against_pytorch(name, layout, data, kSingleOfMuon);
}

}  // namespace

TEST_CASE("models trained by Muon give PyTorch's logits, gradients, losses and weights over 8 steps", "[emulated]") {
  for (const char* name : kMuon) check_muon(name, {});
}

TEST_CASE("so do those on two stages and two data ranks", "[emulated]") {
  for (const char* name : kMuon) check_muon(name, spread(1, 2, 2, 0));
}

TEST_CASE("so do experts trained by Muon on two expert ranks") {
  FixtureLayout l = spread(1, 1, 2, 0);
  l.expert = 2;
  check_muon("muon/experts", l);
}

TEST_CASE("two tensor ranks, each of which makes its own shares of matrices orthogonal, give PyTorch's losses and weights of such shares",
          "[emulated]") {
  check_muon("muon/shares", spread(2, 1, 1, 0));
}
