// T5 against PyTorch (tests/fixtures/README.md), every layout against one rank, and what was simulated against what was done.

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "sim/result/simulate.hpp"
#include "tests/agree/closeness.hpp"
#include "tests/agree/layouts.hpp"
#include "tests/backends.hpp"
#include "tests/catch.hpp"
#include "tests/source_dir.hpp"
#include "topology/plan_reader.hpp"

using namespace tandem;
using nlohmann::json;

namespace {

json read(const std::string& file) {
  return json::parse(std::ifstream(tests::source_dir() + "/tests/fixtures/" + file));
}
/// T5 as published, and with learned positions in layer norms and GELU.
const json& relative_fixture() {
  static const json f = read("t5_pytorch.json");
  return f;
}
const json& learned_fixture() {
  static const json f = read("t5_learned_pytorch.json");
  return f;
}

/// A fixture's batches in order.
class FixturePairs : public tests::HashTokens {
 public:
  explicit FixturePairs(const json& fixture) : HashTokens(fixture["model"]["vocab_size"]), fixture_(fixture) {}
  exec::Example prefix_example(std::int64_t index, const exec::PrefixLengths&) const override {
    exec::Example e;
    e.tokens = of("encoder_tokens", index);
    e.decoder_tokens = of("decoder_tokens", index);
    e.targets = of("targets", index);
    return e;
  }

 private:
  std::vector<std::int32_t> of(const char* what, std::int64_t index) const {
    const std::int64_t batch = fixture_["training"]["global_batch_size"];
    return fixture_[what][static_cast<std::size_t>(index / batch)][static_cast<std::size_t>(index % batch)];
  }
  const json& fixture_;
};

std::int64_t ranks_of(const json& parallel) {
  return parallel.value("tensor", 1) * parallel.value("pipeline", 1) * parallel.value("data", 1);
}

Plan plan_of(json model, const json& parallel, json training) {
  training["precision"] = "fp64";
  const json plan = {{"model", std::move(model)},
                     {"parallel", parallel},
                     {"training", std::move(training)},
                     {"cluster", {{"preset", "cpu-host"}, {"devices", ranks_of(parallel)}}}};
  return parse_plan(plan.dump(), "t5.json");
}

exec::RunResult train(const Plan& plan, const exec::TokenSource& data, exec::RunOptions options) {
  options.gather_gradients = options.gather_weights = true;
  const TaskGraph graph = lower(plan);
  graph.check();
  return exec::run(plan, graph, data, options);
}

double norm(const std::vector<double>& v) {
  double sum = 0;
  for (const double x : v) sum += x * x;
  return std::sqrt(sum);
}
double distance(std::vector<double> a, const std::vector<double>& b) {
  REQUIRE(a.size() == b.size());
  for (std::size_t i = 0; i < a.size(); ++i) a[i] -= b[i];
  return norm(a);
}

// ---- PyTorch ----

double largest_difference(const std::vector<double>& got, const std::vector<double>& expected) {
  REQUIRE(got.size() == expected.size());
  double difference = 0, scale = 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    difference = std::max(difference, std::abs(got[i] - expected[i]));
    scale = std::max(scale, std::abs(expected[i]));
  }
  return difference / scale;
}

void check_tensors(const std::vector<exec::GatheredTensor>& got, const json& expected, double tolerance) {
  REQUIRE(got.size() == expected.size());
  for (const json& tensor : expected) {
    const auto mine =
        std::find_if(got.begin(), got.end(), [&](const exec::GatheredTensor& g) { return g.name == tensor["name"]; });
    INFO(tensor["name"]);
    REQUIRE(mine != got.end());
    CHECK(largest_difference(mine->values, tensor["values"].get<std::vector<double>>()) < tolerance);
  }
}

void check_against_pytorch(const json& f, const json& parallel, const json& more = json::object()) {
  constexpr double kTolerance = 1e-9;
  json training = f["training"];
  training.update(more);
  exec::RunOptions options = tests::run_options();
  options.steps = static_cast<std::int64_t>(f["losses"].size());
  options.initialise = [&](const std::string& name, std::vector<double>& full) {
    for (const json& p : f["initial"])
      if (p["name"] == name) full = p["values"].get<std::vector<double>>();
  };
  const exec::RunResult result = train(plan_of(f["model"], parallel, training), FixturePairs(f), options);
  INFO(parallel.dump() << " " << more.dump());
  check_tensors(result.gradients[0], f["gradients"], kTolerance);
  for (std::size_t s = 0; s < result.steps.size(); ++s) {
    INFO("step " << s);
    const double loss = f["losses"][s], grad_norm = f["grad_norms"][s];
    CHECK(std::abs(result.steps[s].loss - loss) < kTolerance * loss);
    CHECK(std::abs(result.steps[s].grad_norm - grad_norm) < kTolerance * grad_norm);
  }
  check_tensors(result.weights, f["final"], kTolerance);
}

}  // namespace

TEST_CASE("a T5 gives PyTorch's gradients, losses and weights over 20 AdamW steps in fp64") {
  check_against_pytorch(relative_fixture(), json::object());
}

TEST_CASE("a T5 on tensor ranks with shards of the sequence gives PyTorch's numbers") {
  check_against_pytorch(relative_fixture(), {{"tensor", 2}, {"sequence_parallel", true}});
}

TEST_CASE("a T5 whose weights are shards gives PyTorch's numbers") {
  check_against_pytorch(relative_fixture(), {{"data", 2}, {"zero_stage", 3}});
}

TEST_CASE("a T5 on two stages, the second without an encoder, gives PyTorch's numbers") {
  check_against_pytorch(relative_fixture(), {{"pipeline", 2}});
}

TEST_CASE("a T5 whose stacks share a table of learned positions gives PyTorch's numbers, with and without flash attention") {
  const json flash = GENERATE(json::object(), json{{"flash_attention", true}});
  check_against_pytorch(learned_fixture(), json::object(), flash);
  check_against_pytorch(learned_fixture(), {{"tensor", 2}, {"sequence_parallel", true}}, flash);
  check_against_pytorch(learned_fixture(), {{"pipeline", 2}}, flash);
  check_against_pytorch(learned_fixture(), {{"pipeline", 4}, {"data", 2}, {"zero_stage", 2}}, flash);
}

// ---- layouts ----

namespace {

struct Layout {
  const char* parallel;
  const char* model = "{}";      ///< besides kModel
  const char* training = "{}";   ///< besides kTraining
};

// Sizes differ where the layout allows; three encoder layers and two decoder layers.
constexpr const char* kModel = R"({"family": "t5", "num_layers": 3, "num_decoder_layers": 2, "hidden_size": 24,
  "num_attention_heads": 4, "head_dim": 4, "ffn_hidden_size": 40, "vocab_size": 37, "pad_vocab_to": 16})";
constexpr const char* kTraining = R"({"seq_length": 12, "decoder_seq_length": 8, "micro_batch_size": 2,
  "global_batch_size": 16, "dropout": {"hidden": 0.1, "attention": 0.1}, "clip_grad": 0.5})";

Plan plan_of(const Layout& l) {
  json model = json::parse(kModel), training = json::parse(kTraining);
  model.update(json::parse(l.model));
  training.update(json::parse(l.training));
  return plan_of(std::move(model), json::parse(l.parallel), std::move(training));
}

exec::RunResult train(const Layout& l) {
  exec::RunOptions options = tests::run_options();
  options.steps = 3;
  const Plan plan = plan_of(l);
  return train(plan, tests::HashTokens(plan.model.vocab_size), options);
}

/// ||g - g1|| / max(||g1||, 1e-3 ||all gradients||) of every tensor and step.
void check_gradients(const exec::RunResult& a, const exec::RunResult& one) {
  REQUIRE(a.gradients.size() == one.gradients.size());
  for (std::size_t s = 0; s < one.gradients.size(); ++s) {
    double all = 0;
    for (const auto& t : one.gradients[s]) all = std::hypot(all, norm(t.values));
    REQUIRE(a.gradients[s].size() == one.gradients[s].size());
    for (std::size_t t = 0; t < one.gradients[s].size(); ++t) {
      const auto &g = a.gradients[s][t], &g1 = one.gradients[s][t];
      INFO("step " << s << " " << g1.name);
      REQUIRE(g.name == g1.name);
      CHECK(distance(g.values, g1.values) <= 1e-12 * std::max(norm(g1.values), 1e-3 * all));
    }
  }
}

/// `training`: of both, where it changes what is learned.
void check_like_one_rank(Layout l, const char* training = "{}") {
  const exec::RunResult one = train(Layout{"{}", l.model, training});
  if (std::string(l.training) == "{}") l.training = training;
  const exec::RunResult run = train(l);
  INFO(l.parallel << " " << l.model << " " << l.training);
  CHECK(one.steps.front().grad_norm > 0.5);  // clipping is at work
  for (std::size_t s = 0; s < one.steps.size(); ++s) {
    CHECK(std::abs(run.steps[s].loss - one.steps[s].loss) <= 1e-12 * one.steps[s].loss);
    CHECK(std::abs(run.steps[s].grad_norm - one.steps[s].grad_norm) <= 1e-12 * one.steps[s].grad_norm);
  }
  check_gradients(run, one);
}

constexpr const char* kUntied = R"({"tie_embeddings": false})";
constexpr const char* kOther = R"({"num_kv_heads": 2, "normalization": "layernorm", "linear_bias": true, "qkv_bias": true,
  "activation": "geglu", "init_std": 0.1})";
constexpr const char* kFull = R"({"recompute": "full"})";

// Both stacks add the same table of positions; of eight a decoder's, the rest have no gradient from it.
constexpr const char* kLearned = R"({"position_embedding": "learned", "normalization": "layernorm", "linear_bias": true,
  "qkv_bias": true, "activation": "gelu"})";
constexpr const char* kLearnedUntied =
    R"({"position_embedding": "learned", "max_position_embeddings": 19, "tie_embeddings": false})";
constexpr const char* kFlash = R"({"flash_attention": true})";

const Layout kLearnedLayouts[] = {
    {R"({"tensor": 2})", kLearned},
    {R"({"tensor": 2})", kLearned, kFlash},
    {"{}", kLearned, R"({"micro_batch_size": 1, "flash_attention": true, "recompute": "full"})"},
    {R"({"tensor": 4, "sequence_parallel": true})", kLearned,
     R"({"flash_attention": true, "recompute": "selective", "recompute_modules": ["core_attention", "norm"]})"},
    {R"({"pipeline": 2})", kLearned, R"({"recompute": "selective", "recompute_modules": ["mlp"], "recompute_layers": 1})"},
    {R"({"pipeline": 3, "pipeline_split": [1, 3, 1]})", kLearned, kFull},   // the table on two stages of three
    {R"({"pipeline": 4, "pipeline_split": [2, 1, 1, 1], "schedule": "gpipe"})", kLearnedUntied},
    {R"({"pipeline": 2, "pipeline_split": [4, 1]})", kLearned},             // both uses on the first stage
    {R"({"pipeline": 3, "data": 2, "zero_stage": 2, "pipeline_split": [1, 3, 1]})", kLearnedUntied},
    {R"({"pipeline": 2, "data": 2, "zero_stage": 3, "pipeline_split": [4, 1]})", kLearned, kFlash},
    {R"({"pipeline": 2, "data": 2, "zero_stage": 3})", kLearnedUntied},
    {R"({"pipeline": 2, "schedule": "interleaved", "virtual_pipeline": 2, "pipeline_split": [1, 1, 2, 1]})", kLearned},
    {R"({"pipeline": 2, "schedule": "interleaved", "virtual_pipeline": 2, "pipeline_split": [1, 2, 1, 1], "data": 2,
         "zero_stage": 2})", kLearned},
    {R"({"tensor": 2, "sequence_parallel": true, "pipeline": 2, "data": 2, "zero_stage": 1})", kLearned, kFull},
    {R"({"tensor": 2, "sequence_parallel": true, "data": 2, "zero_stage": 3})", kLearned, kFlash},
    {R"({"pipeline": 2, "data": 4, "zero_stage": 2, "zero_group": 2, "pipeline_split": [4, 1]})", kLearned},
    {R"({"data": 2, "overlap_grad_reduce": true, "bucket_bytes": "1 B"})", kLearned},
};

const Layout kLayouts[] = {
    {R"({"tensor": 2})"},
    {"{}", "{}", R"({"micro_batch_size": 1})"},                 // masks are of positions, not of places in a micro-batch
    {R"({"tensor": 4, "sequence_parallel": true, "tensor_overlap": true})", "{}",
     R"({"recompute": "selective", "recompute_modules": ["core_attention", "norm"]})"},
    {R"({"pipeline": 2})", "{}", R"({"recompute": "selective", "recompute_modules": ["mlp"], "recompute_layers": 1})"},
    {R"({"pipeline": 2})", kUntied},                            // the bridge on the second, last stage
    {R"({"pipeline": 3, "pipeline_split": [1, 3, 1]})", "{}", kFull},   // in the middle of the second stage
    {R"({"pipeline": 3, "pipeline_split": [1, 3, 1]})", kUntied},
    {R"({"pipeline": 4, "pipeline_split": [2, 1, 1, 1], "schedule": "gpipe"})"},  // at the start of the third
    {R"({"pipeline": 2, "pipeline_split": [4, 1]})"},           // on the first: three uses of the word matrix on two stages
    {R"({"data": 2, "overlap_grad_reduce": true, "bucket_bytes": "1 B"})"},
    {R"({"pipeline": 2, "data": 2, "zero_stage": 1})"},
    {R"({"pipeline": 3, "data": 2, "zero_stage": 2, "pipeline_split": [1, 3, 1]})", "{}", kFull},
    {R"({"pipeline": 2, "data": 2, "zero_stage": 3, "pipeline_split": [4, 1]})"},
    {R"({"data": 2, "zero_stage": 3})", kUntied},
    {R"({"pipeline": 2, "schedule": "interleaved", "virtual_pipeline": 2, "pipeline_split": [1, 1, 2, 1]})"},
    {R"({"pipeline": 2, "schedule": "interleaved", "virtual_pipeline": 2, "pipeline_split": [1, 2, 1, 1], "data": 2,
         "zero_stage": 2})", kUntied},
    {R"({"tensor": 2, "sequence_parallel": true, "pipeline": 2, "data": 2, "zero_stage": 1})", "{}", kFull},
    {R"({"pipeline": 2, "data": 4, "zero_stage": 2, "zero_group": 2, "pipeline_split": [4, 1]})"},
    {R"({"pipeline": 3, "data": 2, "zero_stage": 1, "overlap_param_gather": true, "overlap_grad_reduce": true})"},
    {R"({"tensor": 2, "sequence_parallel": true, "pipeline": 2})", kOther},
    {R"({"pipeline": 4, "schedule": "interleaved", "virtual_pipeline": 2})", R"({"num_layers": 4})"},  // embedding and head alone
};

}  // namespace

TEST_CASE("every layout of a T5 trains like one rank in fp64, to rounding") {
  for (const Layout& l : kLayouts) check_like_one_rank(l);
}

TEST_CASE("every layout of a T5 with learned positions trains like one rank in fp64, to rounding") {
  for (const Layout& l : kLearnedLayouts) check_like_one_rank(l);
}

TEST_CASE("ranks that share the batch of a T5 with learned positions train bit for bit as one with as many micro-batches") {
  constexpr const char* kFour = R"({"global_batch_size": 8})";
  const exec::RunResult one = train(Layout{"{}", kLearned, kFour});
  tests::check_equal(train(Layout{R"({"data": 4})", kLearned, kFour}), one);
  tests::check_equal(train(Layout{R"({"data": 4, "zero_stage": 1})", kLearned, kFour}), one);
}

TEST_CASE("a T5 under LAMB, which scales every tensor's update by norms, trains alike on stages") {
  check_like_one_rank({R"({"pipeline": 3, "pipeline_split": [1, 3, 1]})"}, R"({"optimizer": "lamb"})");
  check_like_one_rank({R"({"pipeline": 2, "data": 2, "zero_stage": 2})"}, R"({"optimizer": "lamb"})");
}

// ---- books ----

namespace {

/// One rank's FLOPs, payloads and memory.
struct Ledger {
  std::int64_t flops = 0, sends = 0, sent = 0, arena = 0, calls = 0, payload = 0;
  bool operator==(const Ledger&) const = default;
};

std::vector<Ledger> simulated(const Plan& plan, const TaskGraph& graph) {
  sim::SimulateOptions options;
  options.timeline = true;
  const Prediction p = sim::simulate(plan, graph, *make_topology(plan.cluster), options);
  std::vector<Ledger> ledgers(static_cast<std::size_t>(p.ranks));
  for (std::size_t r = 0; r < p.roles.size(); ++r) {
    Ledger l;
    l.arena = p.roles[r].arena_bytes.count();
    const Program& program = graph.program(StageId(p.timeline->lanes[r].coords[Axis::pp]));
    for (const Span& span : p.timeline->lanes[r].spans) {
      const Op& op = graph.of(program.instances[span.instance]).tasks[span.task].op;
      l.flops += matrix_flops(op).count();
      if (std::holds_alternative<Collective>(op)) ++l.calls, l.payload += payload(op).count();
      if (std::holds_alternative<Send>(op)) ++l.sends, l.sent += payload(op).count();
    }
    for (const std::int32_t rank : p.roles[r].ranks) ledgers[static_cast<std::size_t>(rank)] = l;
  }
  return ledgers;
}

std::vector<Ledger> executed(const Plan& plan, const TaskGraph& graph) {
  std::vector<Ledger> ledgers;
  for (const exec::RankBooks& b : exec::run(plan, graph, tests::HashTokens(plan.model.vocab_size), tests::run_options()).ranks) {
    Ledger l{b.backend.gemm_flops, b.comm.sends, b.comm.sent_bytes, b.backend.peak_bytes};
    for (const auto& [key, line] : b.comm.collectives) l.calls += line.calls, l.payload += line.payload_bytes;
    ledgers.push_back(l);
  }
  return ledgers;
}

}  // namespace

TEST_CASE("a T5 does exactly what was simulated: FLOPs, payloads and memory") {
  for (const Layout& l : {Layout{R"({"tensor": 2, "sequence_parallel": true, "pipeline": 2, "data": 2, "zero_stage": 2})"},
                          Layout{R"({"pipeline": 3, "pipeline_split": [1, 3, 1]})"},
                          Layout{R"({"tensor": 2, "sequence_parallel": true, "pipeline": 2})", kLearned, kFlash},
                          Layout{R"({"pipeline": 3, "pipeline_split": [1, 3, 1], "data": 2})", kLearned}}) {
    const Plan plan = plan_of(l);
    const TaskGraph graph = lower(plan);
    INFO(l.parallel);
    CHECK(simulated(plan, graph) == executed(plan, graph));
  }
}
