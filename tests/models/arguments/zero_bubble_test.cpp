// Commands of sail-sg's zero-bubble fork of Megatron-LM, read as plans.

#include <algorithm>
#include <nlohmann/json.hpp>

#include "models/arguments/imported_plan.hpp"
#include "tests/catch.hpp"
#include "tests/models/arguments/imported_field.hpp"

using namespace tandem;
using nlohmann::json;
using tests::field;

namespace {

arguments::ImportedPlan imported(const std::string& options) {
  const std::string command = "torchrun --nproc_per_node 8 pretrain_gpt.py --pipeline-model-parallel-size 8 --num-layers 32 --hidden-size 4096 "
                              "--num-attention-heads 32 --seq-length 2048 --max-position-embeddings 2048 --micro-batch-size 1 "
                              "--global-batch-size 64 --train-iters 10 --lr 1e-4 --fp16 --vocab-size 32000 ";
  return arguments::import_arguments(command + options, "run.sh", arguments::read_table("zero-bubble"), {"dgx-h100", 8, "", 0, {2025, 8}});
}

}  // namespace

TEST_CASE("the fork's schedules in a V are zb-v, v-half and v-min") {
  const std::string vee = "--enable-zero-bubble --zero-bubble-v-schedule ";
  CHECK(field(imported(vee), "parallel.schedule") == "zb-v");
  CHECK(field(imported(vee), "parallel.virtual_pipeline") == 2);
  CHECK(field(imported("--zero-bubble-v-schedule"), "parallel.schedule") == "zb-v");
  CHECK(field(imported(vee + "--zero-bubble-v-schedule-mem-setup zb"), "parallel.schedule") == "zb-v");
  CHECK(field(imported(vee + "--zero-bubble-v-schedule-mem-setup half"), "parallel.schedule") == "v-half");
  CHECK(field(imported(vee + "--zero-bubble-v-schedule-mem-setup min"), "parallel.schedule") == "v-min");
  CHECK(arguments::refusals(imported(vee)).empty());
  CHECK(arguments::refusals(imported(vee + "--zero-bubble-v-schedule-mem-setup quarter")).size() == 1);
}

TEST_CASE("the fork's other schedules follow the limit of pending backward passes") {
  const std::string straight = "--enable-zero-bubble --zero-bubble-max-pending-backward ";
  CHECK(field(imported(straight + "8"), "parallel.schedule") == "zb-h1");
  CHECK(field(imported(straight + "16"), "parallel.schedule") == "zb-h2");
  CHECK(arguments::refusals(imported(straight + "16")).empty());
  CHECK(arguments::refusals(imported(straight + "12")).size() == 1);
  CHECK(field(imported(""), "parallel.schedule") == "1f1b");
  CHECK(arguments::refusals(imported("--enable-1f1b-v")).size() == 1);
}

TEST_CASE("the fork's steps overlap only with validation after the update") {
  CHECK(field(imported("--enable-zero-bubble --enable-optimizer-post-validation"), "parallel.optimizer_sync") == "post_validated");
  CHECK(field(imported("--enable-zero-bubble"), "parallel.optimizer_sync") == "global");
  CHECK(field(imported("--enable-optimizer-post-validation"), "parallel.optimizer_sync") == json());
}
