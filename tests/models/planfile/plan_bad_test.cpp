// Plans that must be refused: each with its class of error, the field, and pieces of the reason and the remedy.

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "models/base/json.hpp"
#include "models/plan/plan.hpp"
#include "tests/catch.hpp"
#include "tests/models/planfile/plan_text.hpp"
#include "topology/plan_reader.hpp"

using namespace tandem;
using namespace tandem::test;

namespace {

enum class Exit { config = 3, infeasible = 4 };

struct Bad {
  std::string about;
  std::string text;
  Exit exit;
  std::string field;
  std::string reason;  ///< a piece of it
  std::string remedy;  ///< a piece of it
};

const std::string kDeep = std::string(5000, '[') + std::string(5000, ']');

std::vector<Bad> syntax_table() {
  return {
      {"an empty file", "", Exit::config, "", "is empty", "write one JSON object"},
      {"a file of blanks", " \n\t ", Exit::config, "", "is empty", ""},
      {"a missing bracket", kGoodPlan.substr(0, kGoodPlan.size() - 2), Exit::config, "line 6, column 55", "ends before", "close every bracket"},
      {"text behind the plan", kGoodPlan + " x", Exit::config, "line 7, column 3", "text behind the end", "remove"},
      {"two plans", kGoodPlan + kGoodPlan, Exit::config, "line 7, column 2", "text behind the end", "remove"},
      {"a trailing comma", bent("8}\n}", "8},\n}"), Exit::config, "line 7, column 1", "comma before the closing bracket", "remove it"},
      {"a comment", bent("\"parallel\"", "// split\n\"parallel\""), Exit::config, "line 4, column 3", "no comments", "notes"},
      {"single quotes", bent("\"good\"", "'good'"), Exit::config, "line 2, column 11", "strings stand in double quotes", ""},
      {"an unquoted key", bent("\"tensor\"", "tensor"), Exit::config, "line 4, column 17", "a key in double quotes", ""},
      {"a missing comma", bent("\"tensor\": 2, ", "\"tensor\": 2 "), Exit::config, "line 4, column 37", "a comma is missing", "write one"},
      {"a missing colon", bent("\"tensor\": 2", "\"tensor\" 2"), Exit::config, "line 4, column 25", "followed by a colon", "\"key\": value"},
      {"a line break in a string", bent("good", "go\nod"), Exit::config, "line 2, column 14", "line break", "\\n"},
      {"nested too deep", bent("\"good\"", kDeep), Exit::config, "", "nested deeper than 64", ""},
      {"not UTF-8", bent("good", "go\xC3(d"), Exit::config, "line 2, column 14", "is not UTF-8", "save"},
      {"an overlong character", bent("good", "\xC0\xAF"), Exit::config, "line 2, column 12", "is not UTF-8", "save"},
      {"a byte-order mark", "\xEF\xBB\xBF" + kGoodPlan, Exit::config, "", "byte-order mark", "without"},
      {"UTF-16", std::string("\xFF\xFE{\0}\0", 6), Exit::config, "", "UTF-16", "UTF-8"},
      {"a key given twice", bent("\"tensor\": 2", "\"tensor\": 2, \"tensor\": 4"), Exit::config, "parallel.tensor", "given twice", "keep one"},
      {"a number beyond doubles", with("training", "\"clip_grad\": 1e400"), Exit::config, "training.clip_grad", "too large for a number", "1.8e308"},
      {"NaN", with("training", "\"clip_grad\": NaN"), Exit::config, "line 5, column 29", "is not a JSON value", "a number, true, false"},
      {"a list", "[1, 2]", Exit::config, "", "must be an object, not a list", "model"},
      {"a bare number", "7", Exit::config, "", "must be an object, not a whole number", ""},
      {"a model's configuration", "{\"model_type\": \"llama\"}", Exit::config, "", "config.json of Hugging Face", "tandem import"},
      {"DeepSpeed's configuration", "{\"train_batch_size\": 8}", Exit::config, "", "of DeepSpeed", "docs/coming-from.md"},
  };
}

std::vector<Bad> value_table() {
  return {
      {"a string for a number", bent("\"tensor\": 2", "\"tensor\": \"2\""), Exit::config, "parallel.tensor", "must be a whole number, not a string", "write 2 without quotes"},
      {"a fraction", bent("\"tensor\": 2", "\"tensor\": 2.5"), Exit::config, "parallel.tensor", "must be a whole number", "use 2 or 3"},
      {"a negative", bent("\"tensor\": 2", "\"tensor\": -2"), Exit::config, "parallel.tensor", "is negative", "at least 1"},
      {"a zero", bent("\"tensor\": 2", "\"tensor\": 0"), Exit::config, "parallel.tensor", "too small", "at least 1"},
      {"null", bent("\"tensor\": 2", "\"tensor\": null"), Exit::config, "parallel.tensor", "is null", "leave the key out"},
      {"a list for a number", bent("\"tensor\": 2", "\"tensor\": [2]"), Exit::config, "parallel.tensor", "not a list", ""},
      {"a number for a flag", with("parallel", "\"sequence_parallel\": 1"), Exit::config, "parallel.sequence_parallel", "true or false", "write true or false"},
      {"a quoted flag", with("parallel", "\"sequence_parallel\": \"true\""), Exit::config, "parallel.sequence_parallel", "true or false", "write true without quotes"},
      {"too large for the field", bent("\"hidden_size\": 64", "\"hidden_size\": 2000000"), Exit::config, "model.hidden_size", "too large", "at most 1048576"},
      {"too large for 64 bits", bent("\"hidden_size\": 64", "\"hidden_size\": 99999999999999999999"), Exit::config, "model.hidden_size", "too large", "at most 1048576"},
      {"a misspelt key", bent("\"hidden_size\"", "\"hiden_size\""), Exit::config, "model.hiden_size", "unknown key", "did you mean \"hidden_size\"?"},
      {"another tool's key", bent("\"tensor\": 2", "\"tp\": 2"), Exit::config, "parallel.tp", "unknown key", "did you mean \"tensor\"?"},
      {"a key in the wrong part", with("model", "\"seq_length\": 32"), Exit::config, "model.seq_length", "unknown key", "it belongs in training"},
      {"an unknown part", bent("\"parallel\"", "\"paralel\""), Exit::config, "paralel", "unknown key", "did you mean \"parallel\"?"},
      {"a dotted key", with("model", "\"moe.num_experts\": 2"), Exit::config, "model.moe.num_experts", "unknown key", "write {\"moe\": {\"num_experts\": ...}}"},
      {"a misspelt choice", with("parallel", "\"schedule\": \"1f2b\""), Exit::config, "parallel.schedule", "is not one of gpipe, 1f1b, interleaved, zb-h1, zb-h2, breadth-first, dualpipe-v, zb-v, v-half or v-min", "did you mean \"1f1b\"?"},
      {"an unknown precision", with("training", "\"precision\": \"int4\""), Exit::config, "training.precision", "is not one of", ""},
      {"a quantity without a unit", with("cluster", "\"override\": {\"scale_out_per_node\": \"400\"}"), Exit::config, "cluster.override.scale_out_per_node", "has no unit", "400 Gb/s"},
      {"a bare bandwidth", with("cluster", "\"override\": {\"scale_out_per_node\": 400}"), Exit::config, "cluster.override.scale_out_per_node", "has no unit", "400 Gb/s"},
      {"an ambiguous unit", with("cluster", "\"override\": {\"scale_out_per_node\": \"400 gb/s\"}"), Exit::config, "cluster.override.scale_out_per_node", "not a unit of a bandwidth", "b is a bit, B a byte"},
      {"a size in bits", with("parallel", "\"bucket_bytes\": \"25 Mb\""), Exit::config, "parallel.bucket_bytes", "not a unit of a size", "MB"},
      {"a group that is no object", with("training", "\"dropout\": 0.1"), Exit::config, "training.dropout", "must be an object", "{\"hidden\": ...}"},
      {"dropout of one", with("training", "\"dropout\": {\"hidden\": 1.0}"), Exit::config, "training.dropout.hidden", "out of range", "less than 1"},
      {"a rank order with an axis twice", with("parallel", "\"rank_order\": \"tp-tp-ep-dp-pp\""), Exit::config, "parallel.rank_order", "each of tp, cp, ep, dp and pp once", "tp-cp-ep-dp-pp"},
      {"a split that is a number", with("parallel", "\"pipeline_split\": 4"), Exit::config, "parallel.pipeline_split", "list of layers", "[7, 8, 8, 7]"},
      {"a split with less than no layer", with("parallel", "\"pipeline_split\": [8, -1]"), Exit::config, "parallel.pipeline_split", "-1 is negative", "at least 0"},
      {"a missing size", bent("\"vocab_size\": 1000", "\"notes\": \"x\""), Exit::config, "model.vocab_size", "is missing and has no default", "vocabulary"},
      {"a missing part", R"({"training": {"seq_length": 8, "micro_batch_size": 1, "global_batch_size": 1}, "cluster": {"preset": "cpu-host", "devices": 1}})", Exit::config, "model", "is missing", "num_layers, hidden_size, num_attention_heads and vocab_size"},
      {"a part that is a string", bent("{\"num_layers\": 8, \"hidden_size\": 64, \"num_attention_heads\": 8, \"vocab_size\": 1000}", "\"gpt2-124m\""), Exit::config, "model", "must be an object, not a string", "write {\"preset\": \"gpt2-124m\"}"},
      {"an unknown preset", with("model", "\"preset\": \"gpt3-157b\""), Exit::config, "model.preset", "no model preset of this name", "did you mean \"gpt3-175b\"?"},
      {"a preset that climbs out", with("model", "\"preset\": \"../stacks/tandem\""), Exit::config, "model.preset", "no model preset of this name", ""},
      {"an unknown stack", with_top("\"stack\": \"megatron\""), Exit::config, "stack", "no stack of this name", "did you mean"},
      {"a stack by half its name", with_top("\"stack\": \"DeepSpeed\""), Exit::config, "stack", "no stack of this name",
       "did you mean \"deepspeed\"?"},
      {"a stack by a part of its name", with_top("\"stack\": \"speed\""), Exit::config, "stack", "no stack of this name",
       "did you mean \"deepspeed\", \"deepspeed-bert\" or \"megatron-deepspeed\"?"},
      {"an empty cluster preset", bent("\"dgx-a100-80gb\"", "\"\""), Exit::config, "cluster.preset", "is empty", "dgx-a100-80gb"},
      {"a decoder in a gpt", with("model", "\"num_decoder_layers\": 2"), Exit::config, "model.num_decoder_layers", "only the t5 family", "t5"},
      {"a t5 without decoder layers", with("model", R"("family": "t5", "num_decoder_layers": 0)"), Exit::config, "model.num_decoder_layers",
       "the t5 family has a decoder", "at least 1"},
      {"a t5 without decoder tokens", bent(R"("model": {)", R"("model": {"family": "t5", )", with("training", R"("decoder_seq_length": 0)")),
       Exit::config, "training.decoder_seq_length", "the t5 family has a decoder", "at least 1"},
      {"a floor above the peak", with("training", "\"min_learning_rate\": 1"), Exit::config, "training.min_learning_rate", "above training.learning_rate", "at most 0.0003"},
      {"half a ramp-up", with("training", "\"batch_rampup\": {\"start\": 4}"), Exit::config, "training.batch_rampup", "start, increment and samples", "all three"},
      {"scores beyond 64 bits", bent("\"num_attention_heads\": 8", "\"num_attention_heads\": 64", bent("\"seq_length\": 32", "\"seq_length\": 134217728")), Exit::config, "training.seq_length", "too large: more bytes of attention scores", "shorter sequence"},
      {"work beyond 64 bits", bent("\"seq_length\": 32", "\"seq_length\": 134217728"), Exit::config, "training.global_batch_size", "too large: more operations", "more ranks"},
      {"more ranks than integers", bent("\"tensor\": 2, \"pipeline\": 2, \"data\": 2", "\"tensor\": 1048576, \"pipeline\": 1048576, \"data\": 1048576"), Exit::config, "parallel", "more ranks than can be counted", "smaller degrees"},
  };
}

/// cluster.perturbation with one list.
std::string perturbed(const std::string& list) { return with("cluster", "\"perturbation\": {" + list + "}"); }

std::vector<Bad> perturbation_table() {
  const std::string devices = "cluster.perturbation.slow_devices", links = "cluster.perturbation.slow_links";
  return {
      {"a device that stands still", perturbed(R"("slow_devices": [{"rank": 1, "factor": 0}])"), Exit::config, devices, "factor 0 of an entry is out of range", "at least 0.0001 and at most 1"},
      {"a device that is fast", perturbed(R"("slow_devices": [{"rank": 1, "factor": 1.25}])"), Exit::config, devices, "factor 1.25 of an entry is out of range", "at least 0.0001 and at most 1"},
      {"a device of no rank", perturbed(R"("slow_devices": [{"rank": -1, "factor": 0.8}])"), Exit::config, devices, "rank -1 of an entry is negative", "at least 0"},
      {"a slow device without a factor", perturbed(R"("slow_devices": [{"rank": 1}])"), Exit::config, devices, "without a factor", "e.g. 0.8"},
      {"a device named twice over", perturbed(R"("slow_devices": [{"rank": 1, "node": 0, "device": 1, "factor": 0.8}])"), Exit::config, devices, "does not say which device", "\"node\" and the \"device\" in it"},
      {"a device without a node", perturbed(R"("slow_devices": [{"device": 0, "factor": 0.8}])"), Exit::config, devices, "does not say which device", "\"node\" for all of its devices"},
      {"a misspelt key of a device", perturbed(R"("slow_devices": [{"ran": 1, "factor": 0.8}])"), Exit::config, devices, "unknown key \"ran\"", "rank, node, device and factor"},
      {"one device that is no list", perturbed(R"("slow_devices": {"rank": 1, "factor": 0.8})"), Exit::config, devices, "must be a list, not an object", "[...]"},
      {"a slow link without a factor", perturbed(R"("slow_links": [{"link": "leaf 0 to spine"}])"), Exit::config, links, "without link or factor", "0.5"},
      {"a lost link with a factor", perturbed(R"("lost_links": [{"link": "leaf 0 to spine", "factor": 1}])"), Exit::config, "cluster.perturbation.lost_links", "must be a string, not an object", ""},
      {"jitter of more than all", perturbed(R"("jitter": {"relative": 2})"), Exit::config, "cluster.perturbation.jitter.relative", "out of range", "at most 1"},
      {"no seeds", perturbed(R"("jitter": {"relative": 0.1, "seeds": 0})"), Exit::config, "cluster.perturbation.jitter.seeds", "too small", "at least 1"},
      {"a perturbation of nothing known", perturbed(R"("slow_ranks": [])"), Exit::config, "cluster.perturbation.slow_ranks", "unknown key", "slow_links"},
  };
}

std::vector<Bad> layout_table() {
  return {
      {"a rank without a thread", bent("\"devices\": 8", "\"devices\": 8, \"threads_per_rank\": 0"), Exit::config, "cluster.threads_per_rank", "is too small", "at least 1"},
      {"a world that is not the cluster", bent("\"devices\": 8", "\"devices\": 16"), Exit::infeasible, "cluster.devices", "2 x 2 x 2 x 1 = 8", "set parallel.data to 4, or cluster.devices to 8"},
      {"heads that do not divide", bent("\"tensor\": 2", "\"tensor\": 3"), Exit::infeasible, "parallel.tensor", "does not divide model.num_attention_heads 8", "use 1, 2, 4 or 8"},
      {"a width that does not divide", bent("\"num_attention_heads\": 8", "\"num_attention_heads\": 7"), Exit::infeasible, "model.num_attention_heads", "does not divide model.hidden_size 64", "8"},
      {"dimensions that turn and have no pair", with("model", "\"family\": \"llama\", \"rotary_fraction\": 0.4"), Exit::infeasible, "model.rotary_fraction", "turns 3 of a head's 8 dimensions", "an even number"},
      {"a window's layers in other letters", with("model", "\"window\": {\"size\": 4, \"layers\": \"LG\"}"), Exit::config, "model.window.layers", "letters w and f", "\"wf\""},
      {"a window that no layer has", with("model", "\"window\": {\"size\": 4, \"layers\": \"ff\"}"), Exit::config, "model.window.layers", "gives no layer the window", "model.window.size 0"},
      {"a window where all tokens are seen", with("model", "\"family\": \"bert\", \"window\": {\"size\": 4}"), Exit::config, "model.window.size", "only causal models have windows", "leave it out"},
      {"layers without positions where all tokens are seen", with("model", "\"family\": \"bert\", \"window\": {\"layers\": \"wf\", \"full_rotary\": false}"), Exit::config, "model.window.full_rotary", "only causal models have layers of the letters w and f", "leave it out"},
      {"heads of a window that no layer has", with("model", "\"family\": \"llama\", \"window\": {\"layers\": \"wf\", \"full_rotary\": false, \"head_dim\": 16}"), Exit::config, "model.window.size", "is 0, and layers without a window have the model's heads", "leave the heads of model.window out"},
      {"a factor of scores without latent attention", with("model", "\"family\": \"llama\", \"rope_scaling\": {\"type\": \"yarn\", \"factor\": 4, \"mscale_all_dim\": 0.7}"), Exit::infeasible, "model.rope_scaling.mscale_all_dim", "only in latent attention", "use 1"},
      {"groups of experts that do not divide", with("model", "\"moe\": {\"num_experts\": 8, \"expert_groups\": 3}"), Exit::infeasible, "model.moe.expert_groups", "does not divide model.moe.num_experts 8", "use 1, 2, 4 or 8"},
      {"more groups than there are", with("model", "\"moe\": {\"num_experts\": 8, \"expert_groups\": 2, \"groups_per_token\": 3}"), Exit::infeasible, "model.moe.groups_per_token", "is more than model.moe.expert_groups 2", "use at most 2, or 0 for all"},
      {"groups with too few experts", with("model", "\"moe\": {\"num_experts\": 8, \"experts_per_token\": 3, \"expert_groups\": 4, \"groups_per_token\": 1}"), Exit::infeasible, "model.moe.groups_per_token", "have 2 experts, fewer than model.moe.experts_per_token 3", "use at least 2, or 0 for all"},
      {"two best experts of groups of one", with("model", "\"moe\": {\"num_experts\": 8, \"expert_groups\": 8, \"groups_per_token\": 2, \"group_score\": \"top2\"}"), Exit::infeasible, "model.moe.group_score", "sums the two best experts of a group", "use max, or at most 4 groups"},
      {"a stage without a layer between others", with("parallel", "\"schedule\": \"interleaved\", \"virtual_pipeline\": 2, \"pipeline_split\": [4, 0, 2, 2]"), Exit::infeasible, "parallel.pipeline_split", "gives a chunk between the first and the last no layer", "use 0 only for the first chunk"},
      {"more modules than a sequence has targets", with("model", "\"mtp\": {\"num_layers\": 32}"), Exit::infeasible, "model.mtp.num_layers", "has no target in a sequence of training.seq_length 32", "use at most 31"},
      {"a soft cap below 0", with("model", "\"attention_soft_cap\": -1"), Exit::config, "model.attention_soft_cap", "", ""},
      {"a bias that moves the wrong way", with("model", "\"moe\": {\"num_experts\": 8, \"balance_rate\": -0.001}"), Exit::config, "model.moe.balance_rate", "", ""},
      {"kv heads that do not divide", with("model", "\"num_kv_heads\": 3"), Exit::infeasible, "model.num_kv_heads", "does not divide model.num_attention_heads 8", "use 1, 2, 4 or 8"},
      {"an MLP that does not divide", with("model", "\"ffn_hidden_size\": 255"), Exit::infeasible, "parallel.tensor", "does not divide model.ffn_hidden_size 255", "use 1"},
      {"an odd vocabulary", bent("\"vocab_size\": 1000", "\"vocab_size\": 1001, \"pad_vocab_to\": 7"), Exit::infeasible, "model.pad_vocab_to", "2 tensor ranks cannot share", "use 14"},
      {"a batch that does not divide", bent("\"global_batch_size\": 16", "\"global_batch_size\": 18"), Exit::infeasible, "training.global_batch_size", "micro_batch_size x data = 2 x 2 = 4", "use 16 or 20"},
      {"a batch below one unit", bent("\"global_batch_size\": 16", "\"global_batch_size\": 2"), Exit::infeasible, "training.global_batch_size", "not a multiple", "use 4"},
      {"more stages than layers", bent("\"num_layers\": 8", "\"num_layers\": 1"), Exit::infeasible, "parallel.pipeline", "there is only 1 layer", "at most 1"},
      {"a split of the wrong length", with("parallel", "\"pipeline_split\": [4, 2, 2]"), Exit::infeasible, "parallel.pipeline_split", "has 3 entries", "give 2 entries"},
      {"a split with the wrong sum", with("parallel", "\"pipeline_split\": [4, 3]"), Exit::infeasible, "parallel.pipeline_split", "sums to 7, but the model has 8 layers", "sum to 8"},
      {"chunks without interleaving", with("parallel", "\"virtual_pipeline\": 2"), Exit::infeasible, "parallel.virtual_pipeline", "only the interleaved, breadth-first, dualpipe-v, zb-v, v-half and v-min schedules", "use 1"},
      {"a V of more chunks than layers", bent("\"pipeline\": 2, \"data\": 2", "\"pipeline\": 4, \"schedule\": \"zb-v\"", bent("\"num_layers\": 8", "\"num_layers\": 5")), Exit::infeasible, "parallel.virtual_pipeline", "4 x 2 chunks are more than the 5 layers", "use at most 2 stages"},
      {"a V of three chunks", with("parallel", "\"schedule\": \"dualpipe-v\", \"virtual_pipeline\": 3"), Exit::infeasible, "parallel.virtual_pipeline", "dualpipe-v has two chunks a stage", "use 2"},
      {"an interleaved schedule of one chunk", bent("\"tensor\": 2, \"pipeline\": 2", "\"tensor\": 2, \"pipeline\": 2, \"schedule\": \"interleaved\", \"virtual_pipeline\": 1"), Exit::infeasible, "parallel.virtual_pipeline", "interleaved with one chunk a stage is 1F1B", "schedule 1f1b"},
      {"a V of one stage", bent("\"tensor\": 2, \"pipeline\": 2", "\"tensor\": 4, \"schedule\": \"dualpipe-v\""), Exit::infeasible, "parallel.schedule", "dualpipe-v needs at least two stages", "use 1f1b"},
      {"a V with too few micro-batches", with("parallel", "\"schedule\": \"dualpipe-v\"", bent("\"global_batch_size\": 16", "\"global_batch_size\": 12")), Exit::infeasible, "parallel.schedule", "needs two micro-batches for each of parallel.pipeline 2 stages, and there are 3", "at least 16"},
      {"interleaving that does not divide", with("parallel", "\"schedule\": \"interleaved\"", bent("\"num_layers\": 8", "\"num_layers\": 7")), Exit::infeasible, "parallel.schedule", "7 layers do not divide by 2", "at most 3"},
      {"interleaving with too few micro-batches", with("parallel", "\"schedule\": \"interleaved\"", bent("\"global_batch_size\": 16", "\"global_batch_size\": 4")), Exit::infeasible, "parallel.schedule", "groups of parallel.pipeline 2", "at least 8"},
      {"a ramp-up that begins with too few micro-batches", with("training", "\"batch_rampup\": {\"start\": 4, \"increment\": 4, \"samples\": 100}", with("parallel", "\"schedule\": \"interleaved\"")), Exit::infeasible, "parallel.schedule", "and there are 1", "batch_rampup.start of at least 8"},
      {"a position table that is too short", with("model", "\"max_position_embeddings\": 16"), Exit::infeasible, "training.seq_length", "longer than the position table", "at most 16"},
      {"sequence sharing without tensor ranks", bent("\"tensor\": 2, \"pipeline\": 2, \"data\": 2", "\"pipeline\": 4, \"data\": 2, \"sequence_parallel\": true"), Exit::infeasible, "parallel.sequence_parallel", "Megatron-LM silently switches it off", "false"},
      {"a sequence that cannot be shared", with("parallel", "\"sequence_parallel\": true", bent("\"seq_length\": 32", "\"seq_length\": 33")), Exit::infeasible, "parallel.sequence_parallel", "33 is not a multiple of tensor x context = 2 x 1 = 2", "use 32 or 34"},
      {"a context that does not divide", bent("\"data\": 2", "\"data\": 1, \"context\": 3"), Exit::infeasible, "parallel.context", "does not divide training.seq_length 32", "1, 2, 4, 8"},
      {"levels of context that do not divide it", bent("\"data\": 2", "\"data\": 1, \"context\": 2, \"ulysses\": 3"), Exit::infeasible, "parallel.ulysses", "does not divide parallel.context 2", "use 1 or 2"},
      {"heads that neighbours cannot share", bent("\"pipeline\": 2, \"data\": 2", "\"context\": 4, \"ulysses\": 4", bent("\"num_attention_heads\": 8", "\"num_attention_heads\": 4")), Exit::infeasible, "parallel.ulysses", "2 heads of a tensor rank do not divide by it", "use 1 or 2"},
      {"experts without experts", with("parallel", "\"expert\": 2"), Exit::infeasible, "parallel.expert", "without experts", "model.moe.num_experts"},
      {"experts that do not divide", with("parallel", "\"expert\": 4", with("model", "\"moe\": {\"num_experts\": 6}")), Exit::infeasible, "parallel.expert", "does not divide model.moe.num_experts 6", "use 1 or 2"},
      {"more experts a token than there are", with("model", "\"moe\": {\"num_experts\": 2, \"experts_per_token\": 3}"), Exit::infeasible, "model.moe.experts_per_token", "more than model.moe.num_experts 2", "at most 2"},
      {"a sharding group that does not divide", with("parallel", "\"zero_group\": 3"), Exit::infeasible, "parallel.zero_group", "does not divide parallel.data 2", "use 1 or 2"},
      {"a ramp step that does not divide", with("training", "\"batch_rampup\": {\"start\": 4, \"increment\": 6, \"samples\": 100}"), Exit::infeasible, "training.batch_rampup.increment", "not every ramp step divides", "use 4 or 8"},
      {"a ramp that misses its end", with("training", "\"batch_rampup\": {\"start\": 4, \"increment\": 8, \"samples\": 100}"), Exit::infeasible, "training.batch_rampup.increment", "does not lead from 4 to global_batch_size 16", "use 4 or 12"},
      {"a stack's rule broken", with("parallel", "\"zero_stage\": 2", with_top("\"stack\": \"megatron-deepspeed\"")), Exit::infeasible, "parallel.zero_stage", "refused by stack megatron-deepspeed", "zero_stage 0 or 1"},
      {"a stack of no month", with_top("\"stack\": \"megatron-core@2025\""), Exit::config, "stack.as_of", "is no month", "2024-07"},
      {"a stack for another machine", with_top("\"stack\": \"neuron-megatron\""), Exit::infeasible, "parallel.tensor", "8 is the only supported", "use 8"},
  };
}

std::vector<Problem> problems_of(const Bad& bad) {
  try {
    parse_plan(bad.text, "bad.json");
  } catch (const InfeasibleError& e) {
    CHECK(bad.exit == Exit::infeasible);
    return e.problems();
  } catch (const ConfigError& e) {
    CHECK(bad.exit == Exit::config);
    return e.problems();
  }
  return {};
}

void check_table(const std::vector<Bad>& table) {
  for (const Bad& bad : table) {
    INFO(bad.about);
    const std::vector<Problem> problems = problems_of(bad);
    REQUIRE(!problems.empty());
    const auto named = std::find_if(problems.begin(), problems.end(), [&](const Problem& p) {
      return p.field == bad.field && p.reason.find(bad.reason) != std::string::npos;
    });
    std::string all;
    for (const Problem& p : problems) all += "\n  " + p.message();
    INFO(all);
    REQUIRE(named != problems.end());
    CHECK(named->remedy.find(bad.remedy) != std::string::npos);
    CHECK(named->file == "bad.json");
    CHECK(named->message().rfind("bad.json", 0) == 0);
    CHECK(named->message().find('\n') == std::string::npos);
  }
}

}  // namespace

TEST_CASE("a text that is not JSON is refused with its line and column") { check_table(syntax_table()); }

TEST_CASE("a value that a field cannot hold is refused by name with what would work") { check_table(value_table()); }

TEST_CASE("a perturbation that cannot be is refused by its list with what is wrong in it") { check_table(perturbation_table()); }

TEST_CASE("a layout that does not divide is infeasible and names values that work") { check_table(layout_table()); }

TEST_CASE("the good plan that the bad ones are bent from is good") { CHECK_NOTHROW(parse_plan(kGoodPlan, "good.json")); }

TEST_CASE("every problem of a plan is reported at once") {
  std::string text = bent("\"tensor\": 2", "\"tensor\": -2");
  text.replace(text.find("\"hidden_size\""), 13, "\"hiden_size\"");
  text.replace(text.find("\"seq_length\": 32"), 16, "\"seq_length\": \"32\"");
  try {
    parse_plan(text, "three.json");
    FAIL("three problems were accepted");
  } catch (const ConfigError& e) {
    std::vector<std::string> fields;
    for (const Problem& p : e.problems()) fields.push_back(p.field);
    CHECK(fields == std::vector<std::string>{"model.hiden_size", "parallel.tensor", "training.seq_length"});
  }
}

TEST_CASE("a plan that cannot be read is refused by name") {
  const auto reason_of = [](const std::string& path) {
    try {
      load_plan(path);
    } catch (const ConfigError& e) {
      CHECK(e.problems().front().file == path);
      return e.problems().front().reason;
    }
    return std::string();
  };
  CHECK(reason_of("/nonexistent/plan.json") == "cannot be read: No such file or directory");
  CHECK(reason_of(std::filesystem::temp_directory_path().string()) == "is a directory, not a file");
}

TEST_CASE("what other systems do and this one does not is refused by its name there") {
  struct Asked { std::string plan, field, what; };
  const std::string sizes = R"("num_layers": 2, "hidden_size": 8, "num_attention_heads": 2, "vocab_size": 16)";
  const std::string rest = R"(, "training": {"seq_length": 8, "micro_batch_size": 1, "global_batch_size": 1},
                              "cluster": {"preset": "cpu-host", "devices": 1}})";
  const auto with_parallel = [&](const std::string& parallel) {
    return R"({"model": {)" + sizes + R"(}, "parallel": )" + parallel + rest;
  };
  for (const Asked& a : {Asked{with_parallel(R"({"offload": {"nvme": true}})"), "parallel.offload.nvme", "NVMe"},
                         Asked{with_parallel(R"({"partition_activations": true})"), "parallel.partition_activations", "partitioned"},
                         Asked{with_parallel(R"({"fpdt": true})"), "parallel.fpdt", "FPDT"},
                         Asked{R"({"model": {"family": "vit", )" + sizes + "}" + rest, "model.family", "vision"},
                         Asked{R"({"model": {"family": "ict", )" + sizes + "}" + rest, "model.family", "ICT"},
                         Asked{R"({"model": {"moe": {"pyramid": true}, )" + sizes + "}" + rest, "model.moe.pyramid", "pyramid"}}) {
    INFO(a.plan);
    try {
      parse_plan(a.plan, "asked.json");
      FAIL("not refused");
    } catch (const InfeasibleError& e) {
      REQUIRE(e.problems().size() == 1);
      CHECK(e.problems().front().field == a.field);
      CHECK(e.problems().front().reason.find("not implemented: ") == 0);
      CHECK(e.problems().front().reason.find(a.what) != std::string::npos);
      CHECK_FALSE(e.problems().front().remedy.empty());
    }
  }
}

TEST_CASE("what this version cannot lower is loaded, and refused by field when it is lowered") {
  const std::string host = "\"zero_stage\": 1, \"offload\": {\"optimizer\": true, \"parameters\": true}";
  const std::string longrope = "\"family\": \"llama\", \"rope_scaling\": {\"type\": \"longrope\", \"factor\": 2}";
  const Plan plan = parse_plan(with("parallel", host, with("model", longrope)), "later.json");
  try {
    require_lowerable(plan);
    FAIL("offloaded weights without ZeRO 3 and longrope were accepted");
  } catch (const InfeasibleError& e) {
    REQUIRE(e.problems().size() == 2);
    CHECK(e.problems()[0].field == "model.rope_scaling.type");
    CHECK(e.problems()[0].reason == "not implemented: model.rope_scaling.type longrope");
    CHECK(e.problems()[0].message().rfind("later.json: model.rope_scaling.type = longrope", 0) == 0);
    CHECK(e.problems()[1].field == "parallel.offload.parameters");
    CHECK(e.problems()[1].reason == "not implemented: parallel.offload.parameters true");
  }
}

TEST_CASE("DualPipeV with gradients or weights that are sharded is loaded, and refused when it is lowered") {
  for (const std::string stage : {"1", "2", "3"}) {
    const Plan plan = parse_plan(with("parallel", "\"schedule\": \"dualpipe-v\", \"zero_stage\": " + stage), "vee.json");
    std::string message;
    try {
      require_lowerable(plan);
    } catch (const InfeasibleError& e) {
      message = e.problems().front().message();
    }
    CHECK(message.empty() == (stage == "1"));
    if (stage != "1") CHECK(message.find("dualpipe-v with zero_stage 0 and 1") != std::string::npos);
  }
}

TEST_CASE("a flood of problems is told as the first twenty and a count") {
  std::string keys;
  for (int i = 0; i < 30000; ++i) keys += "\"odd" + std::to_string(i) + "\": 1, ";
  try {
    parse_plan(bent("\"num_layers\"", keys + "\"num_layers\""), "flood.json");
    FAIL("nothing was refused");
  } catch (const ConfigError& e) {
    REQUIRE(e.problems().size() == 21);
    CHECK(e.problems().back().reason == "and 29980 more problems");
  }
}

TEST_CASE("operations of a mixture of experts count the experts of a token, not all of them") {
  // DeepSeek-V3 computes a token with 37e9 weights (arXiv 2412.19437), 6 operations each: of one of 64 ranks 2.3e17 with this batch, and
  // 2.3e19, above 4.6e18, with a hundred times as many sequences.
  const auto parsed = [](const std::string& batch) {
    return parse_plan(R"({"model": {"preset": "deepseek-v3"}, "parallel": {"data": 64, "expert": 64, "zero_stage": 1},
      "training": {"seq_length": 32768, "micro_batch_size": 1, "global_batch_size": )" + batch + R"(},
      "cluster": {"preset": "dgx-h200", "devices": 64}})", "experts.json");
  };
  CHECK_NOTHROW(parsed("2048"));
  CHECK_THROWS_WITH(parsed("204800"), Catch::Contains("more operations of one rank in one step"));
}
