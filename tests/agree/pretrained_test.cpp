// Encoders and encoder-decoders that begin with weights of transformers, against what transformers computes with them in fp64
// (tests/fixtures/transformers_encoders.py). Decoders: tests/tandem/commands/weights_test.py.

#include "exec/weights/pretrained.hpp"
#include "models/huggingface/imported_model.hpp"
#include "models/plan/mesh.hpp"
#include "tests/agree/fixture.hpp"
#include "tests/agree/formula_weights.hpp"
#include "tests/temporary_folder.hpp"

using namespace tandem;
using namespace tandem::tests;

namespace {

using Shapes = std::map<std::string, std::vector<std::int64_t>>;

constexpr double kDouble = 1e-9;
constexpr std::int64_t kSequences = 4;

/// A fixture's batch; those of T5 have a decoder's part.
class Batch final : public FixtureData {
 public:
  explicit Batch(const json& fixture) : FixtureData(fixture) {}
  exec::Example prefix_example(std::int64_t index, const exec::PrefixLengths&) const override {
    using Ids = std::vector<std::int32_t>;
    exec::Example e{of("tokens", index).get<Ids>(), of("targets", index).get<Ids>(), {}};
    e.decoder_tokens = of("decoder_tokens", index).get<Ids>();
    return e;
  }
};

/// A model of the file, with the plan's model that its configuration gives.
json fixture_of(const std::string& name) {
  json f = json::parse(std::ifstream(source_dir() + "/tests/fixtures/transformers_encoders.json")).at(name);
  f["model"] = huggingface::import_config(f["config"], name).section();
  const std::size_t decoder = f.contains("decoder_tokens") ? f["decoder_tokens"][0][0].size() : 0;
  f["training"] = {{"seq_length", f["tokens"][0][0].size()}, {"micro_batch_size", 1}, {"global_batch_size", kSequences},
                   {"clip_grad", 0}};
  if (decoder > 0) f["training"]["decoder_seq_length"] = decoder;
  return f;
}

/// The layouts of all ranks, without memory.
std::vector<exec::RankState> layouts(const Plan& plan, const TaskGraph& graph) {
  const Mesh mesh = make_mesh(plan);
  std::vector<exec::RankState> ranks;
  for (std::int64_t r = 0; r < mesh.world_size(); ++r) {
    const Rank rank(static_cast<std::int32_t>(r));
    ranks.push_back(exec::rank_state(graph.program(StageId(mesh.coords(rank)[Axis::pp])), mesh, rank, nullptr));
  }
  return ranks;
}

std::unique_ptr<exec::SavedState> weights_of(const json& f, const Plan& plan, const TaskGraph& graph, const std::string& file) {
  const std::string type = f["config"]["model_type"];
  const auto table = huggingface::for_configuration(huggingface::weight_table(type), f["config"]);
  auto rows = huggingface::rows_in_files(table, plan.model, exec::whole_parameters(layouts(plan, graph), plan));
  return exec::open_pretrained(exec::WeightFiles(file), table, std::move(rows));
}

/// The first step with these weights.
Trained begin(const json& f, const FixtureLayout& layout) {
  const Plan plan = plan_of(f, layout);
  const TaskGraph graph = lower(plan);
  const TemporaryFolder folder;
  const auto weights = weights_of(f, plan, graph, folder.file("model.safetensors", formula_file(f["shapes"].get<Shapes>())));
  LogitsBasin basin;
  exec::RunOptions options = run_options();
  options.weights = weights.get();
  options.make_backend = [&](Rank rank) { return under_test(std::make_unique<LogitsTap>(basin), rank); };
  Trained t;
  t.result = exec::run(plan, graph, Batch(f), options);
  t.logits = std::move(basin.pieces);
  return t;
}

}  // namespace

TEST_CASE("an encoder and encoder-decoders with weights of transformers have its loss and logits in every layout", "[emulated]") {
  const std::string name = GENERATE("bert", "t5", "t5 gated", "t5 wide", "mt5");
  const json f = fixture_of(name);
  for (const FixtureLayout& layout : {FixtureLayout{}, spread(2, 1, 1, 0), spread(1, 2, 1, 0), spread(2, 2, 2, 2)}) {
    const Trained t = begin(f, layout);
    INFO(name << ", " << layout.label());
    const double loss = f["loss"], norm = f["grad_norm"];
    CHECK(std::abs(t.result.steps.at(0).loss - loss) < kDouble * loss);
    CHECK(worst_logits(f, t, f["logits"], false) < kDouble);
    CHECK(std::abs(t.result.steps[0].grad_norm - norm) < kDouble * norm);
    if (name == "bert") CHECK(worst_logits(f, t, f["nsp_logits"], true) < kDouble);
  }
}
