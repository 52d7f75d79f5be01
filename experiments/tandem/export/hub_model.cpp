#include "experiments/tandem/export/hub_model.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "models/base/error.hpp"
#include "models/base/text.hpp"
#include "models/huggingface/config_file.hpp"
#include "models/huggingface/imported_model.hpp"
#include "models/huggingface/model_type.hpp"
#include "models/plan/mlp_layers.hpp"
#include "topology/plan_reader.hpp"

namespace tandem::program {
namespace {

using nlohmann::json;

/// A model section with all defaults, in a plan on one rank, without the fields that change neither weights nor logits. A factor of a
/// loss, the places of padding and the width of an MLP that no layer has are such fields.
json deciding_model(const Plan& plan, const json& section) {
  const json frame{{"model", section},
                   {"training", {{"seq_length", plan.training.seq_length}, {"micro_batch_size", 1}, {"global_batch_size", 1}, {"precision", "fp32"}}},
                   {"cluster", {{"preset", "cpu-host"}, {"devices", 1}}}};
  const StackChoice own{std::string(kOwnStack), std::nullopt};
  const Plan said = parse_plan(frame.dump(), plan.file, own);
  json model = json::parse(to_json(said, -1)).at("model");
  for (const char* key : {"name", "notes", "family", "pad_vocab_to", "init_std"}) model.erase(key);
  if (!has_mlp_layer(said.model)) model.erase("ffn_hidden_size");
  for (const char* key : {"rows_bound", "aux_loss", "z_loss", "capacity_factor"}) model["moe"].erase(key);
  model["mtp"].erase("loss_scale");
  if (model.value("position_embedding", "") != "learned") model.erase("max_position_embeddings");
  return model;
}

/// A field in which a plan and a configuration differ.
struct FieldDifference {
  std::string field;
  json plan, other;
};

std::vector<FieldDifference> differences(const json& plan, const json& other) {
  const json a = plan.flatten(), b = other.flatten();
  std::vector<FieldDifference> out;
  const auto dotted = [](std::string pointer) {
    for (char& c : pointer) c = c == '/' ? '.' : c;
    return "model" + pointer;
  };
  for (const auto& [pointer, value] : a.items())
    if (const json there = b.value(pointer, json()); there != value) out.push_back({dotted(pointer), value, there});
  for (const auto& [pointer, value] : b.items())
    if (!a.contains(pointer)) out.push_back({dotted(pointer), json(), value});
  return out;
}

/// How fast the biases of experts move changes neither weights nor logits; whether there are any does.
void take_balance_rate(const Plan& plan, json& section) {
  const json::json_pointer rate("/moe/balance_rate"), bias("/moe/balance_bias");
  const MoeSpec& moe = plan.model.moe;
  if (!moe.balanced() || section.value(rate, 0.0) == 0) return;
  section[rate] = moe.balance_rate;
  section[bias] = moe.balance_bias;
}

/// Fields in which the plan's model is not the configuration's. A window as long as a sequence may be said or left out. A plan may do
/// without modules of multi-token prediction, as transformers does.
std::vector<FieldDifference> differences(const Plan& plan, const json& config, const std::string& file) {
  const json mine = deciding_model(plan, json::parse(to_json(plan, -1)).at("model"));
  std::vector<FieldDifference> least;
  for (const std::int64_t sequence : {plan.training.seq_length, std::int64_t{0}}) {
    json section = huggingface::import_config(config, file, sequence).section();
    if (plan.model.mtp.num_layers == 0) section.erase("mtp");
    take_balance_rate(plan, section);
    std::vector<FieldDifference> found = differences(mine, deciding_model(plan, section));
    if (found.empty()) return {};
    if (least.empty()) least = std::move(found);
  }
  return least;
}

constexpr std::string_view kQuantized = "unquantized";  // ids of quantized weights in models/huggingface/types/Decoder.json begin so

/// What gives weights that can be read. transformers computes those of fp8 and mxfp4 back (Mxfp4Config, FineGrainedFP8Config).
std::string remedy_for(const huggingface::MissingFeature& f) {
  if (f.id == "unquantized_fp8" || f.id == "unquantized_mxfp4")
    return "load the model in transformers with dequantize=True and call save_pretrained";
  if (f.id.starts_with(kQuantized)) return "give the weights of the model before it was quantized";
  return "weights that were trained with it give other losses without it";
}

/// Whether weights are read all the same: numbers of 8 bits with scales.
bool expressed(const huggingface::MissingFeature& f, const json& config) {
  return f.id.starts_with(kQuantized) && huggingface::scaled_block(config) > 0;
}

/// Features of the configuration that neither a plan nor the weights say, also those that change numbers but no operation.
std::vector<Problem> unsaid(const Plan& plan, const huggingface::WeightTable& table, const json& config, const std::string& file) {
  std::vector<Problem> out;
  const std::vector<huggingface::WeightDifference> judged = huggingface::weight_differences(table, config, file);  // by add_told
  for (const huggingface::MissingFeature& f : huggingface::import_config(config, file, plan.training.seq_length).features) {
    const auto same = [&](const huggingface::WeightDifference& d) { return d.name == f.name; };
    if (f.training || expressed(f, config) || std::any_of(judged.begin(), judged.end(), same)) continue;
    std::vector<std::string> fields;
    for (const huggingface::FieldValue& v : f.fields) fields.push_back(v.field);
    out.push_back({file, list_text(fields), "", "not implemented: " + f.name, remedy_for(f)});
  }
  return out;
}

/// What only trains experts, or drops their tokens, is no part of transformers' model.
void add_experts(const Plan& plan, HubModel& model) {
  const MoeSpec& moe = plan.model.moe;
  if (moe.num_experts == 0) return;
  if (moe.capacity_factor > 0) model.told.emplace_back("model.moe.capacity_factor: the runtime drops tokens beyond it, transformers none");
  if (moe.aux_loss > 0)
    model.told.emplace_back("model.moe.aux_loss: the runtime adds a balancing loss for each layer of a micro-batch; transformers adds one of all "
                            "layers' choices and scores, and only with output_router_logits. With one layer of experts they are equal at "
                            "model.moe.aux_loss = router_aux_loss_coef * num_experts_per_tok");
  if (moe.balance_rate > 0)
    model.told.emplace_back("model.moe.balance_rate: the runtime moves the experts' biases after each step, transformers never; balance_rate 0 with balance_bias keeps them");
}

/// Adds what the runtime computes in another way, or throws InfeasibleError.
void add_told(const Plan& plan, HubModel& model, const std::string& file) {
  add_experts(plan, model);
  std::vector<Problem> refused;
  for (const huggingface::WeightDifference& d : huggingface::weight_differences(model.table, *model.config, file))
    if (d.told) model.told.push_back(d.name + ": the runtime computes " + d.instead);
    else refused.push_back({file, "", "", "not implemented: " + d.name, "weights that were trained with it give other losses without it"});
  if (!refused.empty()) throw InfeasibleError(refused);
}

/// Leaves the configuration's modules of multi-token prediction out, which are the layers behind the plan's last.
void leave_modules_out(const Plan& plan, const std::string& file, json& config, HubModel& model) {
  const json section = huggingface::import_config(config, file, plan.training.seq_length).section();
  const std::int64_t modules = section.value("/mtp/num_layers"_json_pointer, std::int64_t{0});
  const auto rule = model.table.parameters.find("mtp.join.weight");
  if (plan.model.mtp.num_layers > 0 || modules == 0 || rule == model.table.parameters.end()) return;
  const std::string& name = rule->second.of.front();
  for (std::int64_t m = 0; m < modules; ++m)
    model.table.left_out.push_back(name.substr(0, name.find('{')) + std::to_string(plan.model.num_layers + m) + ".");
  config.erase("num_mtp_layers");
  config["num_nextn_predict_layers"] = 0;
  model.told.emplace_back("model.mtp.num_layers: the plan leaves the modules of multi-token prediction out");
}

/// Why a type does not say a plan's model.
struct TypeMismatch {
  std::vector<Problem> problems;  ///< none: it does
  bool compared = false;          ///< they are all fields that differ
};

TypeMismatch type_mismatch(const Plan& plan, const huggingface::WeightTable& table, const json& config) {
  const std::string file = plan.file, name = "type " + table.type;
  std::vector<Problem> out;
  try {
    for (const Problem& p : unsaid(plan, table, config, name)) out.push_back({file, "", "", name + " does not say the plan's model: " + p.reason, ""});
    if (!out.empty()) return {out};
    for (const FieldDifference& d : differences(plan, config, name))
      out.push_back({file, d.field, value_text(d.plan), name + " cannot say it: it has " + value_text(d.other), ""});
    return {out, true};
  } catch (const InfeasibleError& e) {
    out.push_back({file, "", "", name + " does not say the plan's model: " + e.problems().front().reason, ""});
  } catch (const ConfigError& e) {
    out.push_back({file, e.problems().front().field, e.problems().front().value, name + " does not say the plan's model: " + e.problems().front().reason, ""});
  }
  return {out};
}

/// The fields of problems, the first few by name.
std::string fields_text(const std::vector<Problem>& problems) {
  constexpr std::size_t kNamed = 3;
  std::vector<std::string> fields;
  for (std::size_t i = 0; i < std::min(kNamed, problems.size()); ++i) fields.push_back(problems[i].field);
  if (problems.size() > kNamed) fields.push_back(std::to_string(problems.size() - kNamed) + " more");
  return list_text(fields);
}

/// All types of language models alone, those that say other types' models in a roundabout way behind.
std::vector<std::string> types_to_try() {
  std::vector<std::string> types = huggingface::types_with_weights();
  std::erase_if(types, [](const std::string& type) { return !huggingface::weight_table(type).towers.empty(); });
  const auto first = [](const std::string& type) { return !huggingface::weight_table(type).after_others; };
  std::stable_partition(types.begin(), types.end(), first);
  return types;
}

void require_no_towers(const huggingface::WeightTable& table) {
  if (!table.towers.empty())
    throw InfeasibleError(Problem{"", "--type", table.type, "has towers beside its language model, which a plan does not say",
                                  "give --config with the folder of the whole model, or leave --type out for the language model alone"});
}

/// How a plan gets a field of the configuration.
std::string field_remedy(const std::string& field) {
  if (field == "model.moe.balance_rate") return "set it, or set model.moe.balance_bias to true for biases that are used but do not move";
  return "name the configuration in the plan, without this field beside it: \"model\": {\"preset\": \"PATH/config.json\"}";
}

}  // namespace

huggingface::WeightTable weight_table_of(const json& config, const std::string& file) {
  const std::string type = huggingface::model_type_of(config, file).name;
  try {
    return huggingface::weight_table(type);
  } catch (const ConfigError& e) {
    Problem p = e.problems().front();
    p.file = file;
    throw ConfigError(p);
  }
}

HubModel hub_model_of_config(const Plan& plan, const std::string& path) {
  const std::string file = huggingface::config_path(path);
  json config = huggingface::read_config(path);
  HubModel model;
  model.table = weight_table_of(config, file);
  if (std::vector<Problem> problems = unsaid(plan, model.table, config, file); !problems.empty()) throw InfeasibleError(problems);
  std::vector<Problem> problems;
  for (const FieldDifference& d : differences(plan, config, file))
    problems.push_back({plan.file, d.field, value_text(d.plan), "the model of " + file + " has " + value_text(d.other), field_remedy(d.field)});
  if (!problems.empty()) throw ConfigError(problems);
  model.table = huggingface::for_configuration(std::move(model.table), config);
  leave_modules_out(plan, file, config, model);
  model.config = std::make_shared<const json>(std::move(config));
  add_told(plan, model, file);
  return model;
}

HubModel hub_model_of_plan(const Plan& plan, const std::string& type) {
  const json whole = json::parse(to_json(plan, -1));
  const std::vector<std::string> types = type.empty() ? types_to_try() : std::vector{type};
  std::vector<Problem> refused, fewest;
  std::string nearest;
  for (const std::string& name : types) {
    huggingface::WeightTable table = huggingface::weight_table(name);
    require_no_towers(table);
    json config = huggingface::config_of(table, whole);
    const auto [problems, compared] = type_mismatch(plan, table, config);
    if (problems.empty()) {
      table = huggingface::for_configuration(std::move(table), config);
      HubModel model{std::move(table), std::make_shared<const json>(std::move(config)), {}};
      add_experts(plan, model);
      return model;
    }
    refused = problems;
    if (compared && (nearest.empty() || problems.size() < fewest.size())) nearest = name, fewest = problems;
  }
  if (!type.empty()) throw InfeasibleError(refused);
  const std::string near = nearest.empty() ? "" : "; the nearest, " + nearest + ", cannot say " + fields_text(fewest);
  throw InfeasibleError(Problem{plan.file, "model", "",
                                "not implemented: none of the " + std::to_string(types.size()) + " model types with a table of weights says this model" + near,
                                "--type NAME tells everything that one type cannot say"});
}

HubModel chosen_hub_model(const Plan& plan, const std::string& type, const std::string& config) {
  HubModel model = config.empty() ? hub_model_of_plan(plan, type) : hub_model_of_config(plan, config);
  if (!type.empty() && model.table.type != type)
    throw ConfigError(Problem{config, "model_type", model.table.type, "is not --type " + type, "leave one of them out"});
  return model;
}

}  // namespace tandem::program
