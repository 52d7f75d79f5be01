#include <algorithm>
#include <nlohmann/json.hpp>

#include "models/arguments/exported_options.hpp"
#include "models/arguments/imported_plan.hpp"
#include "models/arguments/stage_layers.hpp"
#include "models/arguments/toml_text.hpp"
#include "models/base/error.hpp"
#include "tests/catch.hpp"
#include "tests/models/arguments/imported_field.hpp"
#include "tests/source_dir.hpp"
#include "topology/plan_reader.hpp"

using namespace tandem;
using nlohmann::json;

namespace {

const arguments::Table& table() {
  static const arguments::Table read = arguments::read_table("torchtitan");
  return read;
}

arguments::ImportedPlan imported(const std::string& text, std::int64_t devices = 64, const std::string& model = "") {
  return arguments::import_arguments(text, "run.toml", table(), {"dgx-h100", devices, model, 0, {2025, 8}});
}

/// A field of the plan that a file is read as; null if the plan leaves it out.
using tests::field;

json field(const std::string& text, const std::string& path, std::int64_t devices = 64) {
  return field(imported(text, devices), path);
}

/// LLaMA 3 8B, 32 layers, and `more`.
std::string llama(const std::string& more) { return "[model]\nname = \"llama3\"\nflavor = \"8B\"\n" + more; }

std::vector<std::string> unsaid(const Plan& plan) {
  return arguments::unsaid_fields(plan, arguments::export_plan(plan, table(), 8), table(), PlanContext{generation_of});
}

Plan plan_of(const json& changes) {
  json document = {{"stack", "torchtitan@2025-08"},
                   {"model", {{"preset", "llama3-8b"}}},
                   {"parallel", {{"zero_stage", 3}}},
                   {"training", {{"seq_length", 8192}, {"micro_batch_size", 1}, {"global_batch_size", 64}, {"recompute", "full"},
                                 {"learning_rate_decay", "linear"}}},
                   {"cluster", {{"preset", "dgx-h100"}, {"devices", 32}}}};
  document.merge_patch(changes);
  return parse_plan(document.dump(), "plan.json");
}

}  // namespace

TEST_CASE("TOML is read as JSON, and a mistake is told by its line") {
  const json read = arguments::parse_toml("a = 1\n[b.c]\nd = [true, \"x\"]\ne = 2_000\nf = 1979-05-27\n", "run.toml");
  CHECK(read == json{{"a", 1}, {"b", {{"c", {{"d", {true, "x"}}, {"e", 2000}, {"f", "1979-05-27"}}}}}});
  try {
    arguments::parse_toml("a = 1\n[b\n", "run.toml");
    FAIL("no error");
  } catch (const ConfigError& e) {
    CHECK(e.problems().front().file == "run.toml");
    CHECK(e.problems().front().field.starts_with("line 2"));
  }
  const nlohmann::ordered_json written{{"b", {{"x", 1.5}, {"c", {{"y", {"p", "q"}}}}}}};
  CHECK(arguments::toml_text(written) == "[b]\nx = 1.5\n\n[b.c]\ny = [\"p\",\"q\"]\n");
  CHECK(arguments::parse_toml(arguments::toml_text(written), "again") == json::parse(written.dump()));
}

TEST_CASE("torchtitan's defaults are its own, not a plan's") {
  const arguments::ImportedPlan plan = imported(llama("[parallelism]\n"));
  CHECK(field(plan, "model.preset") == "llama3-8b");
  // torchtitan/config/job_config.py: local_batch_size 8, seq_len 2048, selective_ac_option "2", lr 8e-4, linear, 10000 steps.
  CHECK(field(plan, "training.micro_batch_size") == 8);
  CHECK(field(plan, "training.global_batch_size") == 8 * 64);
  CHECK(field(plan, "training.seq_length") == 2048);
  CHECK(field(plan, "parallel.zero_stage") == 3);
  CHECK(field(plan, "training.recompute") == "full");
  CHECK(field(plan, "training.recompute_layers") == 16);  // every second of 32
  CHECK(field(plan, "training.learning_rate") == 8e-4);
  CHECK(field(plan, "training.learning_rate_decay") == "linear");
  CHECK(field(plan, "training.steps") == 10000);
  CHECK(plan.unknown.empty());
}

TEST_CASE("degrees that are left out are what the devices leave") {
  const std::string degrees = llama("[parallelism]\ntensor_parallel_degree = 4\ndata_parallel_replicate_degree = 2\n");
  CHECK(field(degrees, "parallel.data") == 16);
  CHECK(field(degrees, "parallel.zero_group") == 8);
  const std::string said = degrees + "data_parallel_shard_degree = 4\n";
  CHECK(field(said, "cluster.devices", 0) == 32);
  CHECK(field(llama("[parallelism]\ndata_parallel_shard_degree = 1\ndata_parallel_replicate_degree = 64\n"), "parallel.zero_stage") == 0);
  CHECK_THROWS_AS(imported(degrees, 0), ConfigError);
}

TEST_CASE("stages have the layers that torchtitan gives them") {
  // Its generate_llm_fqn_per_model_part at e347b1e5e, run with (stages, layers, input_weight, output_weight).
  using Layers = std::vector<std::int64_t>;
  const auto split = [](std::int64_t stages, std::int64_t layers, std::int64_t first, std::int64_t last) {
    return arguments::stage_call("weighted_ends", {layers, stages, first, last}).get<Layers>();
  };
  CHECK(split(4, 32, 1, 1) == Layers{8, 9, 8, 7});
  CHECK(split(8, 32, 1, 1) == Layers{4, 5, 4, 4, 4, 4, 4, 3});
  CHECK(split(12, 80, 1, 1) == Layers{6, 7, 7, 7, 7, 7, 7, 7, 7, 7, 6, 5});
  CHECK(split(2, 3, 2, 1) == Layers{1, 2});
  CHECK(split(4, 30, 0, 2) == Layers{8, 8, 8, 6});
  CHECK_THROWS_AS(split(8, 3, 4, 1), ConfigError);
  const std::string stages = llama("[training]\nlocal_batch_size = 16\n[parallelism]\npipeline_parallel_degree = 4\n");
  CHECK(field(stages, "parallel.pipeline_split") == Layers{8, 9, 8, 7});
  CHECK(field(stages, "training.micro_batch_size") == 1);  // of the pipeline; 16 are in flight
  CHECK(field(stages, "training.global_batch_size") == 16 * 16);
  CHECK(field(stages, "parallel.zero_stage") == 2);
  const std::string chunks = stages + "pipeline_parallel_schedule = \"Interleaved1F1B\"\n";
  CHECK(field(chunks, "parallel.virtual_pipeline") == 2);
  CHECK(field(chunks + "pipeline_parallel_layers_per_stage = 3\n", "parallel.virtual_pipeline") == 3);  // 34 / 3: 12 chunks of 4 stages
}

TEST_CASE("converters, compilation and recomputation are said by their fields") {
  const std::string more = llama("converters = [\"float8\"]\n[compile]\nenable = true\n[activation_checkpoint]\nmode = \"selective\"\n"
                                 "selective_ac_option = \"op\"\n[quantize.linear.float8]\nenable_fsdp_float8_all_gather = true\n");
  CHECK(field(more, "training.precision") == "fp8");
  CHECK(field(more, "training.dtypes.weights") == "fp8");
  CHECK(field(more, "training.fusion") == "compiled");
  CHECK(field(more, "training.recompute") == "selective");
  CHECK(field(more, "training.recompute_modules") == json{"operations"});
  CHECK(field(llama("[training]\ndtype = \"bfloat16\"\n"), "training.dtypes.master") == "bf16");
  CHECK(field(llama("[lr_scheduler]\nwarmup_steps = 100\ndecay_ratio = 0.25\nmin_lr_factor = 0.1\n[training]\nsteps = 1000\n"), "training.decay_start") == 750);
  CHECK(field(llama("[lr_scheduler]\ndecay_ratio = 0\n"), "training.learning_rate_decay") == "constant");
}

TEST_CASE("names of older torchtitan are understood") {
  const std::string old = "[model]\nname = \"llama2\"\nflavor = \"7B\"\n[training]\nbatch_size = 2\nwarmup_steps = 50\ntensor_parallel_degree = 2\n"
                          "[experimental]\npipeline_parallel_degree = 2\n";
  CHECK(field(old, "model.preset") == "llama2-7b");
  CHECK(field(old, "parallel.tensor") == 2);
  CHECK(field(old, "parallel.pipeline") == 2);
  CHECK(field(old, "training.warmup") == 50);
  CHECK(imported(old).unknown.empty());
}

TEST_CASE("what torchtitan's file cannot say as a plan is refused by name") {
  const auto refused = [](const std::string& text) {
    const std::vector<Problem> all = arguments::refusals(imported(text));
    return all.empty() ? "" : all.front().reason;
  };
  CHECK(refused(llama("[parallelism]\n")).empty());
  CHECK(refused(llama("[parallelism]\ntensor_parallel_degre = 2\n")).find("not known here") != std::string::npos);
  CHECK(refused(llama("[activation_checkpoint]\nmode = \"memory_budget\"\n")).find("memory_budget") != std::string::npos);
  CHECK(refused(llama("[parallelism]\npipeline_parallel_degree = 2\npipeline_parallel_schedule = \"InterleavedZeroBubble\"\n")).find("InterleavedZeroBubble") != std::string::npos);
  CHECK(refused(llama("converters = [\"mine\"]\n")).find("converter") != std::string::npos);
  try {
    imported("[model]\nflavor = \"debugmodel\"\n");
    FAIL("no error");
  } catch (const ConfigError& e) {
    CHECK(e.problems().front().value.find("debugmodel") != std::string::npos);
    CHECK(e.problems().front().remedy.find("--model") != std::string::npos);
  }
  CHECK(field(imported("[model]\nflavor = \"debugmodel\"\n[parallelism]\n", 64, "llama3-70b"), "training.recompute_layers") == 40);
}

TEST_CASE("a plan is exported as torchtitan's TOML and comes back") {
  const std::string text = arguments::export_plan(plan_of({{"parallel", {{"tensor", 2}}}}), table(), 8).text;
  const json written = arguments::parse_toml(text, "made.toml");
  CHECK(written["parallelism"]["tensor_parallel_degree"] == 2);
  CHECK(written["parallelism"]["data_parallel_shard_degree"] == 16);
  CHECK(written["parallelism"]["fsdp_reshard_after_forward"] == "always");
  CHECK(written["activation_checkpoint"]["mode"] == "full");
  CHECK(written["training"]["local_batch_size"] == 1);
  const std::vector<json> all = {
      {{"parallel", {{"tensor", 2}, {"tensor_overlap", true}}}, {"training", {{"fusion", "compiled"}}}},
      {{"parallel", {{"zero_group", 8}}}, {"training", {{"recompute", "none"}, {"learning_rate_decay", "constant"}}}},
      {{"parallel", {{"pipeline", 4}, {"zero_stage", 2}, {"pipeline_split", {8, 9, 8, 7}}}}, {"training", {{"recompute_layers", 3}}}},
      {{"parallel", {{"pipeline", 4}, {"zero_stage", 2}, {"pipeline_split", {10, 12, 9, 1}}}}},
      {{"parallel", {{"pipeline", 4}, {"zero_stage", 2}, {"schedule", "interleaved"}, {"virtual_pipeline", 4}}}},
      {{"parallel", {{"context", 2}, {"context_mode", "all_gather"}}},
       {"training", {{"recompute", "selective"}, {"recompute_modules", {"operations"}}, {"precision", "fp8"}, {"fusion", "compiled-blocks"}}}},
  };
  for (const json& changes : all) {
    CAPTURE(changes.dump());
    CHECK(unsaid(plan_of(changes)) == std::vector<std::string>());
  }
  const std::vector<std::string> samples = unsaid(plan_of({{"training", {{"learning_rate_unit", "samples"}}}}));
  REQUIRE_FALSE(samples.empty());
  CHECK(std::any_of(samples.begin(), samples.end(), [](const std::string& s) { return s.starts_with("training.learning_rate_unit"); }));
}

TEST_CASE("replicas with context ranks shard over the context ranks alone") {
  const std::string file = llama("[parallelism]\ndata_parallel_replicate_degree = 4\ndata_parallel_shard_degree = 1\ncontext_parallel_degree = 4\n");
  CHECK(field(file, "parallel.zero_stage", 16) == 3);
  CHECK(field(file, "parallel.zero_group", 16) == 1);
}

TEST_CASE("every N-th layer is counted over all chunks of a rank, as torchtitan's _layer_sac_count does") {
  const std::string chunks = llama("[training]\nlocal_batch_size = 8\n[parallelism]\npipeline_parallel_degree = 4\npipeline_parallel_schedule = \"Interleaved1F1B\"\n");
  // 8 chunks of 4, 5, 4, 4, 4, 4, 4 and 3 layers: the second rank has 5 + 4, and every second of these 9 is wrapped.
  CHECK(field(chunks, "training.recompute_layers") == 4);
  CHECK(arguments::stage_call("largest_stage", {{4, 5, 4, 4, 4, 4, 4, 3}, 4, true}) == 9);
  CHECK(arguments::stage_call("largest_stage", {{1, 2, 3, 9}, 2, true}) == 10);
  CHECK(arguments::stage_call("largest_stage", {{1, 2, 3, 9}, 2, false}) == 11);
  CHECK(field(llama("[activation_checkpoint]\nselective_ac_option = \"0\"\n"), "training.recompute") == "full");
  CHECK(field(llama("[activation_checkpoint]\nearly_stop = false\n"), "training.recompute_early_stop") == false);
}

TEST_CASE("names of modules and split points say the layers of stages") {
  const std::string two = llama("[parallelism]\npipeline_parallel_degree = 2\n");
  CHECK(field(two + "pipeline_parallel_split_points = [\"layers.14\"]\n", "parallel.pipeline_split") == json{14, 18});
  const std::string named = two + "module_fqns_per_model_part = [[\"tok_embeddings\", \"layers.0\"], [\"layers.1\", \"norm\", \"output\"]]\n";
  CHECK(field(named, "parallel.pipeline_split") == json{1, 1});
}

TEST_CASE("the number of micro-batches dates a file, and is the number of stages where it is left out") {
  const std::string old = llama("[training]\nbatch_size = 8\n[experimental]\npipeline_parallel_degree = 2\n");
  CHECK(field(old + "pipeline_parallel_microbatches = 4\n", "training.micro_batch_size") == 2);
  CHECK(field(old, "training.micro_batch_size") == 4);
  CHECK(field(old, "stack.as_of") == "2025-02");
}

TEST_CASE("schedules have the names of every month, and unknown words are refused") {
  const std::string two = llama("[training]\nlocal_batch_size = 8\n[parallelism]\npipeline_parallel_degree = 2\npipeline_parallel_schedule = ");
  CHECK(field(two + "\"gpipe\"\n", "parallel.schedule") == "gpipe");
  CHECK(field(two + "\"interleaved_1f1b\"\n", "parallel.schedule") == "interleaved");
  CHECK(field(two + "\"interleaved1f1b\"\n", "parallel.schedule") == "interleaved");
  const auto refused = [](const std::string& text) { return arguments::refusals(imported(text)).size(); };
  CHECK(refused(two + "\"flexible_interleaved_1f1b\"\n") == 1);
  CHECK_THROWS_WITH(imported(llama("[activation_checkpoint]\nmode = \"foo\"\n")), Catch::Contains("activation_checkpoint.mode"));
  CHECK_THROWS_WITH(imported(llama("[parallelism]\nfsdp_reshard_after_forward = \"foo\"\n")), Catch::Contains("fsdp_reshard_after_forward"));
}

TEST_CASE("stages of before August 2025 have equal layers, those left over behind the first") {
  // pytorch/torchtitan f6a9daa13: torchtitan/parallelisms/pipelining_utils.py, generate_split_points: 8, 16 and 24 of 32 layers;
  // of 30 layers 7, then 8 and 8, and the last has what is left.
  const std::string old = llama("[training]\nbatch_size = 8\n[experimental]\npipeline_parallel_degree = 4\n");
  CHECK(field(old, "parallel.pipeline_split") == json{8, 8, 8, 8});
  CHECK(arguments::stage_call("more_behind_the_first", {30, 4}) == json{7, 8, 8, 7});
  const std::string eight = llama("[training]\nlocal_batch_size = 8\n[parallelism]\npipeline_parallel_degree = 2\npipeline_parallel_schedule = \"Interleaved1F1B\"\n"
                                  "pipeline_parallel_split_points = [\"layers.8\", \"layers.16\", \"layers.24\", \"layers.26\", \"layers.28\"]\n");
  CHECK(field(eight, "parallel.virtual_pipeline") == 3);
}

TEST_CASE("what torchtitan itself refuses, or Tandem cannot lower, is refused when it is read") {
  const auto refused = [](const std::string& text) { return arguments::refusals(imported(text)).size(); };
  const std::string four = llama("[parallelism]\npipeline_parallel_degree = 4\n");
  CHECK(refused(four) == 0);
  CHECK(refused(four + "pipeline_parallel_layers_per_stage = 5\n") == 1);  // ceil(34 / 5) = 7 chunks for 4 ranks
  CHECK(refused(four + "pipeline_parallel_schedule = \"DualPipeV\"\n") == 1);
  CHECK(refused(four + "pipeline_parallel_schedule = \"DualPipeV\"\ndata_parallel_replicate_degree = 16\ndata_parallel_shard_degree = 1\n") == 0);
}

TEST_CASE("ZBVZeroBubble is zb-v both ways, with weights that are sharded") {
  const std::string text = llama("[training]\nlocal_batch_size = 8\n[parallelism]\npipeline_parallel_degree = 4\n"
                                 "pipeline_parallel_schedule = \"ZBVZeroBubble\"\n");
  CHECK(arguments::refusals(imported(text)).empty());
  CHECK(field(text, "parallel.schedule") == "zb-v");
  CHECK(field(text, "parallel.virtual_pipeline") == 2);
  // 34 units, of which embedding and output are one each: 8 chunks of 4, the first two one more.
  CHECK(field(text, "parallel.pipeline_split") == json{4, 5, 4, 4, 4, 4, 4, 3});
  CHECK(field(text, "parallel.zero_stage") == 2);
  CHECK(unsaid(plan_of({{"parallel", {{"pipeline", 4}, {"schedule", "zb-v"}, {"zero_stage", 2}}}})).empty());
}

TEST_CASE("torchtitan's exchanges of experts are read, and its stack takes what is read") {
  const auto read = [](const std::string& parallelism, Month as_of) {
    const std::string text = "[model]\nname = \"deepseek_v3\"\nflavor = \"16B\"\n[training]\nlocal_batch_size = 16\n[parallelism]\nexpert_parallel_degree = 8\n" + parallelism;
    const arguments::ImportedPlan plan = arguments::import_arguments(text, "run.toml", table(), {"gb200-nvl72", 32, "", 0, as_of, StackChoice{"torchtitan", as_of}});
    json document = json::parse(plan.document->dump());
    document["stack"] = {{"name", "torchtitan"}, {"as_of", text_of(as_of)}};
    const Plan parsed = parse_plan(document.dump(), "plan.json");  // the stack refuses nothing
    return std::pair(parsed.parallel.token_dispatcher == TokenDispatcher::deepep, parsed.parallel.overlap_experts);
  };
  const auto backend = [](const char* name) { return std::string("expert_parallel_comm_backend = \"") + name + "\"\n"; };
  CHECK(read("", {2025, 8}) == std::pair(false, false));
  CHECK(read(backend("standard"), {2025, 8}) == std::pair(false, false));
  CHECK(read(backend("deepep"), {2025, 12}) == std::pair(true, false));  // 36a4b6942 (2025-12-17)
  CHECK(read(backend("hybridep"), {2026, 3}) == std::pair(true, false));  // 156db2ead (2026-03-11)
  const std::string folded = "data_parallel_replicate_degree = 8\ndata_parallel_shard_degree = 1\npipeline_parallel_degree = 4\npipeline_parallel_schedule = \"DualPipeV\"\n";
  CHECK(read(folded, {2025, 8}) == std::pair(false, false));
  CHECK(read(folded, {2026, 1}) == std::pair(false, true));  // fcc5643f4 (2025-12-12)
  const auto features = imported("[model]\nname = \"deepseek_v3\"\nflavor = \"16B\"\n[parallelism]\nexpert_parallel_degree = 8\n" + backend("minimal_async_ep")).features;
  REQUIRE(features.size() == 1);
  CHECK(features.front().refused);
}

TEST_CASE("torchtitan's exchange of experts is HybridEP where NVLink joins hosts") {
  const Plan plan = plan_of({{"stack", "torchtitan@2026-02"}, {"model", {{"preset", "deepseek-v2-lite"}}}, {"parallel", {{"expert", 8}, {"token_dispatcher", "deepep"}}}});
  CHECK(arguments::export_plan(plan, table(), 4, 32).text.find("expert_parallel_comm_backend = \"hybridep\"") != std::string::npos);
  CHECK(arguments::export_plan(plan, table(), 8).text.find("expert_parallel_comm_backend = \"deepep\"") != std::string::npos);
}
