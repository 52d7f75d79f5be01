// Two-layer models in bf16 against PyTorch, which trained them in bf16 (tests/fixtures), whole and spread over ranks.

#include "tests/agree/closeness.hpp"
#include "tests/agree/fixture.hpp"

using namespace tandem;
using namespace tandem::tests;

namespace {

constexpr int kLayers = 2;

/// The fixture in fp64 with what PyTorch had in bf16 from the same weights and batches.
json read_narrow(const std::string& name) {
  std::ifstream file(source_dir() + "/tests/fixtures/bf16_pytorch.json");
  const json narrow = json::parse(file);
  json f = read_fixture(name);
  for (const json& v : narrow["variants"])
    if (v["name"] == name) {
      f.erase("final");
      f.update(v);
      return f;
    }
  throw std::runtime_error("no bf16 fixture " + name);
}

/// A run that had PyTorch's gradients in its first step.
exec::RunResult expected_run(const json& f) {
  exec::RunResult expected;
  expected.gradients.emplace_back();
  for (const json& p : f["gradients"]) {
    exec::GatheredTensor& t = expected.gradients[0].emplace_back();
    t.name = p["name"];
    t.values = p["values"].get<std::vector<double>>();
  }
  return expected;
}

/// ||final weights - PyTorch's|| / ||PyTorch's final weights - the initial ones||, over all tensors.
double share_of_way(const json& f, const exec::RunResult& run) {
  std::map<std::string, std::vector<double>> got;
  for (const exec::GatheredTensor& t : run.weights) got[t.name] = t.values;
  double difference = 0, way = 0;
  for (std::size_t i = 0; i < f["final"].size(); ++i) {
    REQUIRE(f["final"][i]["name"] == f["initial"][i]["name"]);
    const auto values = f["final"][i]["values"].get<std::vector<double>>();
    difference += std::pow(distance(got.at(f["final"][i]["name"]), values), 2);
    way += std::pow(distance(values, f["initial"][i]["values"].get<std::vector<double>>()), 2);
  }
  return std::sqrt(difference / way);
}

double relative(double value, double expected) { return std::abs(value / expected - 1); }

/// The first step's logits, gradients, loss and norm are within Megatron's bound of rounding; the loss stays so over all 20 steps.
/// From the second step on, AdamW divides each gradient's rounding by the gradient's own size, so single weights and norms drift: all
/// weights together end within a fifth of the way that training moved them (0.153 of it is the most that was seen). Where experts have a capacity, a choice that rounding
/// changes takes another token's place, too, so there only losses are compared.
void check(const std::string& name, FixtureLayout layout) {
  layout.precision = "bf16";
  const json f = read_narrow(name);
  const FixtureData data(f);
  const Trained t = train(f, layout, data);
  const exec::RunResult& r = t.result;
  const double deepest = rounding_bound("word", kLayers, kBf16);
  INFO(name << " " << layout.label());
  CHECK(worst_logits(f, t, f["logits"], false) < deepest);
  CHECK(share_of_bound(r, expected_run(f), kLayers, kBf16) < 1);
  CHECK(relative(r.steps[0].loss, f["losses"][0]) < kBf16);
  CHECK(relative(r.steps[0].grad_norm, f["grad_norms"][0]) < kBf16);
  for (std::size_t s = 0; s < r.steps.size(); ++s) {
    INFO("step " << s);
    CHECK(relative(r.steps[s].loss, f["losses"][s]) < deepest);
  }
  if (f.contains("final")) CHECK(share_of_way(f, r) < 0.2);
}

void check_all(const FixtureLayout& layout) {
  for (const char* name : {"gpt", "llama", "moe/mixtral", "moe/switch"}) check(name, layout);
}

}  // namespace

TEST_CASE("two-layer models in bf16 give PyTorch's logits, gradients and losses within Megatron's bound of rounding", "[emulated]") {
  check_all({});
}

TEST_CASE("so do they in bf16 on two tensor ranks, stages and data ranks at once, with ZeRO 2") {
  check_all(spread(2, 2, 2, 2));
}

TEST_CASE("so do they in bf16 on two data ranks with ZeRO 3") {
  check_all(spread(1, 1, 2, 3));
}

TEST_CASE("so do experts in bf16 on two expert ranks") {
  FixtureLayout l = spread(1, 1, 2, 0);
  l.expert = 2;
  check("moe/switch", l);
}
