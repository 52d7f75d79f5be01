#include "exec/checkpoint/resumable.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "models/base/error.hpp"
#include "models/base/json.hpp"
#include "models/fields/plan_values.hpp"
#include "models/plan/mlp_layers.hpp"

namespace tandem::exec {
namespace {

using nlohmann::json;

json at(const json& plan, const std::string& pointer) {
  const json::json_pointer place(pointer);
  return plan.contains(place) ? plan.at(place) : json();
}

/// Plan fields that say the model and its adapters.
std::set<std::string> model_fields(const json& a, const json& b) {
  std::set<std::string> fields{"/training/lora"};
  for (const json& model : {at(a, "/model"), at(b, "/model")})
    for (const auto& [key, value] : model.items()) fields.insert("/model/" + key);
  return fields;
}

/// Plan fields that must not change: they determine the saved tensors, what they compute, and the order of random numbers.
/// An encoder-decoder keeps its lengths, because its learning rate counts the encoder's tokens alone.
std::set<std::string> fixed_fields(const json& a, const json& b) {
  std::set<std::string> fields = model_fields(a, b);
  for (const char* field : {"precision", "dtypes/weights", "dtypes/optimizer_state", "dtypes/master", "optimizer", "seed", "decoder_seq_length"})
    fields.insert(std::string("/training/") + field);
  if (at(b, "/model/family") == "t5") fields.insert("/training/seq_length");
  return fields;
}

constexpr const char* kTable = "/model/max_position_embeddings";

constexpr const char* kEmbedding = "/model/position_embedding";

/// Model fields that may change although results depend on them: those of rotations.
constexpr const char* kRotations[] = {"/model/rope_theta", "/model/rope_scaling", "/model/window/rope_theta"};

void erase_at(json& plan, const std::string& pointer) {
  const json::json_pointer place(pointer);
  if (plan.contains(place)) plan.at(place.parent_pointer()).erase(place.back());
}

/// The plan without model fields that may change: names, padding, capacity, the width of an MLP that no layer has, and positions
/// that are computed.
json deciding(json plan, bool has_mlp) {
  if (at(plan, "/training/lora/rank") == 0) plan["training"].erase("lora");  // older checkpoints do not have the field
  erase_at(plan, "/training/lora/dropout");
  if (!at(plan, "/model").is_object()) return plan;
  json& model = plan["model"];
  for (const char* key : {"name", "notes", "pad_vocab_to"}) model.erase(key);
  if (!has_mlp) model.erase("ffn_hidden_size");
  if (model.contains("moe") && model["moe"].is_object()) model["moe"].erase("rows_bound");
  for (const char* field : kRotations) erase_at(plan, field);
  if (at(plan, kEmbedding) != "learned") erase_at(plan, kTable);
  return plan;
}

/// Fields that may change on resume but affect what the model learns.
constexpr const char* kHyperParameters[] = {
    "seq_length", "learning_rate", "min_learning_rate", "learning_rate_decay", "learning_rate_unit", "warmup", "decay_start", "decay_power", "beta1", "beta2",
    "epsilon", "weight_decay", "momentum", "dropout/hidden", "dropout/attention", "lora/dropout", "clip_grad", "global_batch_size", "batch_rampup/start",
    "batch_rampup/increment", "batch_rampup/samples", "muon/newton_schulz_steps", "muon/nesterov", "muon/scale_mode", "muon/scale", "documents"};

/// A hyper-parameter's value. Plans whose documents are joined do not say so, nor those whose adapters have no dropout.
json named_value(const json& plan, const std::string& field) {
  const json value = at(plan, field);
  if (value.is_null() && field == "/training/documents") return "joined";
  return value.is_null() && field == "/training/lora/dropout" ? json(0.0) : value;
}

std::string dotted(const std::string& pointer) {
  std::string field = pointer.substr(1);
  for (char& c : field) c = c == '/' ? '.' : c;
  return field;
}

/// Fields whose change a new run can have that begins with the saved weights.
constexpr const char* kOfNewRun[] = {"/training/precision", "/training/optimizer", "/training/lora", "/training/dtypes/weights",
                                     "/training/dtypes/optimizer_state", "/training/dtypes/master"};

std::string remedy(const std::string& path, const std::string& field) {
  const std::string same = "resume with the plan that was trained";
  if (std::find(std::begin(kOfNewRun), std::end(kOfNewRun), field) == std::end(kOfNewRun)) return same;
  return same + ", or begin a run with its weights: tandem export " + path + " --out DIR, then train with --weights DIR";
}

Problem difference(const std::string& path, const std::string& field, const json& saved, const json& wanted) {
  if (field == kTable)
    return {path, dotted(field), value_text(saved), "the plan has " + value_text(wanted) + ", and a learned position table keeps its rows",
            "keep model.max_position_embeddings " + value_text(saved) + ": sequences may have any length up to it"};
  return {path, dotted(field), value_text(saved), "the plan has " + value_text(wanted), remedy(path, field)};
}

/// Throws ConfigError if one of the fields that `fields` names differs.
void require_equal(const Checkpoint& checkpoint, const Plan& plan, std::set<std::string> (*fields_of)(const json&, const json&)) {
  const std::string path = checkpoint.state->file();
  const bool mlp = has_mlp_layer(plan.model);
  const json saved = deciding(parse_json(checkpoint.run.plan_json, path), mlp);
  const json wanted = deciding(json::parse(to_json(plan, -1)), mlp);
  std::vector<Problem> problems;
  std::set<std::string> fields = fields_of(saved, wanted);
  if (at(saved, kEmbedding) != at(wanted, kEmbedding)) fields.erase(kTable);  // only one of them has a table
  for (const std::string& field : fields)
    if (at(saved, field) != at(wanted, field)) problems.push_back(difference(path, field, at(saved, field), at(wanted, field)));
  if (!problems.empty()) throw ConfigError(problems);
}

/// "training.seq_length from 64 to 128" for each field that differs.
std::vector<std::string> changes(const Checkpoint& checkpoint, const Plan& plan, const std::vector<std::string>& fields) {
  const json saved = parse_json(checkpoint.run.plan_json, checkpoint.state->file()), wanted = json::parse(to_json(plan, -1));
  std::vector<std::string> out;
  for (const std::string& field : fields) {
    const json before = named_value(saved, field), now = named_value(wanted, field);
    if (before != now) out.push_back(dotted(field) + " from " + value_text(before) + " to " + value_text(now));
  }
  return out;
}

}  // namespace

void require_resumable(const Checkpoint& checkpoint, const Plan& plan) { require_equal(checkpoint, plan, fixed_fields); }

void require_same_model(const Checkpoint& checkpoint, const Plan& plan) { require_equal(checkpoint, plan, model_fields); }

std::vector<std::string> changed_hyper_parameters(const Checkpoint& checkpoint, const Plan& plan) {
  std::vector<std::string> fields(std::begin(kRotations), std::end(kRotations));
  for (const char* name : kHyperParameters) fields.push_back(std::string("/training/") + name);
  return changes(checkpoint, plan, fields);
}

std::vector<std::string> changed_rotations(const Checkpoint& checkpoint, const Plan& plan) {
  return changes(checkpoint, plan, {std::begin(kRotations), std::end(kRotations)});
}

}  // namespace tandem::exec
