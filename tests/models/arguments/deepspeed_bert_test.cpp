#include <nlohmann/json.hpp>

#include "models/base/error.hpp"
#include "tests/catch.hpp"
#include "tests/models/arguments/imported_field.hpp"
#include "tests/source_dir.hpp"
#include "tests/temporary_folder.hpp"
#include "topology/plan_reader.hpp"

using namespace tandem;
using namespace tandem::tests;
using nlohmann::json;

namespace {

/// What HabanaAI/Model-References 1.8.0 runs: a script of deepspeed-bert/scripts with its variables.
struct Script {
  std::string nodes, model, file, steps, more;
  json deepspeed;
};

json deepspeed_file(std::int64_t micro_batch, const json& zero) {
  return {{"steps_per_print", 4}, {"train_batch_size", 12288}, {"train_micro_batch_size_per_gpu", micro_batch}, {"bf16", {{"enabled", true}}},
          {"gradient_clipping", 1.0}, {"zero_optimization", zero}, {"zero_allow_untested_optimizer", true},
          {"tensorboard", {{"enabled", true}, {"output_path", "out"}, {"job_name", "bert"}}}};
}

const json kZero2 = {{"stage", 2}, {"overlap_comm", false}, {"reduce_scatter", false}, {"contiguous_gradients", false},
                     {"reduce_bucket_size", 150000000}, {"max_group_size", 1310822400}};

const Script kSmall{"4", "./scripts/bert_1.5b_config.json", "ds.json", "155000", "", deepspeed_file(16, {{"stage", 1}})};
const Script kLarge{"16", "scripts/bert_5b_config.json", "ds.json", "75000", "--checkpoint_activations", deepspeed_file(24, kZero2)};

std::string options_of(const Script& s) {
  return "deepspeed --num_nodes " + s.nodes + " --num_gpus 8 --no_local_rank --no_python --hostfile=h --master_addr 10.0.0.1 python -u ./run_pretraining.py "
         "--use_hpu --disable_progress_bar " + s.more + " --optimizer=lans --use_lr_scheduler --resume_from_checkpoint --do_train "
         "--bert_model=bert-base-uncased --config_file=" + s.model + " --json-summary=r.json --output_dir=o --seed=12439 --input_dir=d "
         "--max_seq_length 128 --max_predictions_per_seq=20 --max_steps=" + s.steps + " --steps_this_run=-1 --num_steps_per_checkpoint=120 "
         "--learning_rate=0.0015 --warmup_proportion=0.05 --constant_proportion=0.25 --scheduler_degree=1.0 --log_freq=1 --deepspeed "
         "--deepspeed_config=" + s.file;
}

arguments::ImportedPlan imported(const Script& script, const std::string& model = "") {
  const TemporaryFolder folder;
  const std::string file = folder.at("run.args"), text = options_of(script);
  folder.file("ds.json", script.deepspeed.dump());
  return arguments::import_arguments(text, file, arguments::table_of_options(text, file), {"hls-gaudi1", 0, model, 0, {2023, 2}});
}

/// A plan with all defaults, without its words.
json completed(const Plan& plan) {
  json out = json::parse(to_json(plan));
  for (const char* key : {"name", "notes"}) out.erase(key);
  return out;
}

}  // namespace

TEST_CASE("the scripts of BERT-1.5B and BERT-5B say the plans that were written from them by hand") {
  for (const auto& [script, name] : {std::pair{kSmall, "bert-1.5b-gaudi-32"}, std::pair{kLarge, "bert-5b-gaudi-128"}}) {
    CAPTURE(name);
    const arguments::ImportedPlan made = imported(script);
    CHECK(made.unknown == std::vector<std::string>{});
    CHECK(arguments::refusals(made).empty());
    const Plan plan = parse_plan(made.document->dump(), "run.json");
    CHECK(completed(plan) == completed(load_plan(source_dir() + "/experiments/plans/seeds/" + name + ".json")));
  }
}

TEST_CASE("another model of the BERT program is named by the user") {
  Script script = kSmall;
  script.model = "mine.json";
  CHECK_THROWS_WITH(imported(script), Catch::Contains("mine.json") && Catch::Contains("--model"));
  CHECK(field(imported(script, "bert-5b"), "model.preset") == "bert-5b");
  CHECK(field(imported(script, "bert-5b"), "training.dropout") == json());
}

TEST_CASE("the BERT program's rate is constant without its scheduler") {
  std::string text = options_of(kSmall);
  text.erase(text.find("--use_lr_scheduler"), std::string("--use_lr_scheduler").size());
  const TemporaryFolder folder;
  folder.file("ds.json", kSmall.deepspeed.dump());
  const std::string file = folder.at("run.args");
  const auto made = arguments::import_arguments(text, file, arguments::table_of_options(text, file), {"hls-gaudi1", 0, "", 0, {2023, 2}});
  CHECK(field(made, "training.learning_rate") == 0.0015);
  CHECK(field(made, "training.learning_rate_decay") == json());
  CHECK(field(made, "training.warmup") == json());
}
