#include "experiments/tandem/planning/candidates.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "experiments/tandem/base/fields.hpp"
#include "experiments/tandem/import/report.hpp"
#include "models/base/files.hpp"
#include "models/base/json.hpp"
#include "models/base/presets.hpp"
#include "models/base/text.hpp"
#include "models/huggingface/config_file.hpp"

namespace tandem::planning {
namespace {

using nlohmann::json;

constexpr std::int64_t kSequence = 4096;  // of a model without a plan

json value_of(const std::string& text, const std::string& flag) {
  const bool nested = text.starts_with('{') || text.starts_with('[');
  if (nested) return parse_json(text, flag);
  const json value = json::parse(text, nullptr, false);
  return value.is_discarded() ? json(text) : value;
}

void require_field(const std::string& field, const std::string& flag) {
  Problem p = study::unknown_field(field);
  if (p.reason.empty()) return;
  p.file = flag;
  throw ConfigError(p);
}

/// Requires a cluster and devices if the input has none.
void require_place(const PlanChoice& choice) {
  if (!choice.clusters.empty() && !choice.devices.empty()) return;
  const std::string lacks = choice.clusters.empty() ? choice.devices.empty() ? "--cluster and --devices" : "--cluster" : "--devices";
  throw ConfigError(Problem{choice.plan, lacks, "", "is missing: this is a model, and no plan", "give " + lacks + ", or a plan file"});
}

json model_plan(const json& model) {
  return {{"model", model},
          {"parallel", {{"zero_stage", 3}}},
          {"training", {{"seq_length", kSequence}, {"micro_batch_size", 1}}}};
}

json plan_of_preset(const PlanChoice& choice) {
  if (find_preset("models/presets", choice.plan).empty()) {
    Problem p = unknown_preset("models/presets", choice.plan, "plan file, config.json or model preset");
    p.file = choice.plan;
    p.value.clear();
    throw ConfigError(p);
  }
  require_place(choice);
  return model_plan({{"preset", choice.plan}});
}

json plan_of_config(const PlanChoice& choice) {
  require_place(choice);
  const import::Import made = import::make_import(choice.plan, 0, false);
  if (made.refused) throw InfeasibleError(huggingface::refusals(made.model));
  return model_plan(json::parse(made.document().dump()).at("model"));
}

/// The base of all variants, and whether it came without a layout.
json base_of(const PlanChoice& choice) {
  if (!is_preset_path(choice.plan) && !file_exists(choice.plan)) return plan_of_preset(choice);
  if (is_folder(choice.plan)) return plan_of_config(choice);
  json plan = huggingface::read_config_or_own(choice.plan);
  return huggingface::is_config(plan) ? plan_of_config(choice) : plan;
}

bool is_model(const PlanChoice& choice) {
  if (is_folder(choice.plan) || (!is_preset_path(choice.plan) && !file_exists(choice.plan))) return true;
  return huggingface::is_config(huggingface::read_config_or_own(choice.plan));
}

bool has_batch(const json& plan) {
  return plan.contains("training") && plan["training"].is_object() &&
         (plan["training"].contains("global_batch_size") || plan["training"].contains("preset"));
}

struct Axis {
  std::string label, field;
  std::vector<json> values;
};

std::vector<Axis> axes_of(const PlanChoice& choice) {
  std::vector<Axis> out;
  const auto add = [&](const std::string& label, const std::string& field, std::vector<json> values) {
    if (!values.empty()) out.push_back({label, field, std::move(values)});
  };
  add("cluster", "cluster.preset", {choice.clusters.begin(), choice.clusters.end()});
  add("devices", "cluster.devices", {choice.devices.begin(), choice.devices.end()});
  for (const FieldValues& f : choice.fields) {
    require_field(f.field, "--set");
    const std::string field = study::present_name(f.field);
    if (std::any_of(out.begin(), out.end(), [&](const Axis& a) { return a.field == field; }))
      throw ConfigError(Problem{"--set", f.field, "", "is given twice", "give all its values at once: " + f.field + "=A,B"});
    std::vector<json> values;
    for (const std::string& text : f.values) values.push_back(value_of(text, "--set"));
    add(field, field, values);
  }
  return out;
}

std::size_t count_of(const std::vector<Axis>& axes, const std::string& plan) {
  std::size_t count = 1;
  for (const Axis& a : axes) {
    count *= a.values.size();
    if (count > kMostCandidates)
      throw ConfigError(Problem{plan, "", "", "the options make more than " + std::to_string(kMostCandidates) + " plans", "give fewer values"});
  }
  return count;
}

bool sets(const PlanChoice& choice, const std::string& field) {
  return std::any_of(choice.fields.begin(), choice.fields.end(), [&](const FieldValues& f) { return f.field == field; });
}

void require_phase(const Phase& phase) {
  for (const auto& [field, value] : phase.fields) {
    require_field(field, "--phase");
    const std::string name = study::present_name(field);
    if (name.starts_with("cluster") && name != "cluster.devices")
      throw ConfigError(Problem{"--phase", field, value, "cannot differ between phases: all run on one cluster",
                                "give --cluster or --set, for all phases"});
  }
}

void set_batch(json& plan, const PlanChoice& choice, std::int64_t sequences_per_device) {
  const bool said = plan.contains("cluster") && plan["cluster"].is_object() && plan["cluster"].contains("devices");
  if (!said && sequences_per_device > 0)
    throw ConfigError(Problem{choice.plan, "cluster.devices", "", "is left out, but --sequences-per-device needs it", "give --devices N"});
  if (!said) return;
  if (!plan["cluster"]["devices"].is_number_integer()) return;
  const auto devices = plan["cluster"]["devices"].get<std::int64_t>();
  if (sequences_per_device > 0) study::set_field(plan, "training.global_batch_size", sequences_per_device * devices);
  else if (!has_batch(plan)) study::set_field(plan, "training.global_batch_size", devices);
}

std::string text_of(const json& value) { return value.is_string() ? value.get<std::string>() : value.dump(); }

}  // namespace

bool sets(const Phase& phase, const std::string& field) {
  const std::string name = study::present_name(field);
  return std::any_of(phase.fields.begin(), phase.fields.end(), [&](const auto& f) { return study::present_name(f.first) == name; });
}

std::vector<Problem> problems_in(const Phase& phase, std::vector<Problem> problems) {
  for (Problem& p : problems)
    if (!p.field.empty() && sets(phase, p.field)) p.file = "--phase";
  return problems;
}

bool all_set(const std::vector<Phase>& phases, const std::string& field) {
  return std::all_of(phases.begin(), phases.end(), [&](const Phase& p) { return sets(p, field); });
}

std::vector<Combination> combinations(const PlanChoice& choice, const std::vector<Phase>& phases) {
  for (const Phase& phase : phases) require_phase(phase);
  const std::vector<Axis> axes = axes_of(choice);
  for (const Axis& axis : axes)
    if (all_set(phases, axis.field))
      throw ConfigError(Problem{"--phase", axis.field, "", "is set in every phase, so its value for all phases has no effect", "leave out one of them"});
  std::vector<Combination> out(count_of(axes, choice.plan));
  for (std::size_t i = 0; i < out.size(); ++i) {
    std::size_t rest = i, block = out.size();
    for (const Axis& axis : axes) {
      block /= axis.values.size();
      const json& value = axis.values[rest / block];
      rest %= block;
      out[i].fields.emplace_back(axis.field, value.dump());
      if (axis.values.size() > 1) out[i].label += (out[i].label.empty() ? "" : ", ") + axis.label + " " + text_of(value);
    }
  }
  return out;
}

Combination in_phase(Combination combination, const std::vector<Phase>& phases, std::size_t phase) {
  Fields& fields = combination.fields;
  const auto set = [&](const std::string& field, const std::string& value) {
    std::erase_if(fields, [&](const auto& f) { return f.first == field; });
    fields.emplace_back(field, value);
  };
  if (phase > 0) set("training.batch_rampup", "null");
  for (const auto& [field, value] : phases[phase].fields) set(study::present_name(field), value_of(value, "--phase").dump());
  return combination;
}

std::int64_t sequences_per_device(const PlanChoice& choice, const Phase& phase) {
  return sets(phase, "training.global_batch_size") ? 0 : choice.sequences_per_device;
}

std::vector<std::vector<CandidatePlan>> candidates(const PlanChoice& choice, const std::vector<Phase>& phases) {
  json base = base_of(choice);
  // Other layouts are of the same devices, also where these follow from the degrees.
  if (base.is_object() && !sets(choice, "parallel.data"))
    if (const std::int64_t devices = study::devices_by_degrees(base, choice.plan); devices > 0) study::set_field(base, "cluster.devices", devices);
  std::vector<std::vector<CandidatePlan>> out;
  for (const Combination& combination : combinations(choice, phases)) {
    std::vector<CandidatePlan>& plans = out.emplace_back();
    for (std::size_t i = 0; i < phases.size(); ++i) {
      CandidatePlan& plan = plans.emplace_back(CandidatePlan{"", choice.plan, combination.label, ""});
      const Fields fields = in_phase(combination, phases, i).fields;
      json document = base;
      for (const auto& [field, value] : fields) study::set_field(document, field, json::parse(value));
      if (document.is_object()) set_batch(document, choice, sequences_per_device(choice, phases[i]));
      const bool given = sets(choice, "parallel.data") || sets(phases[i], "parallel.data");
      if (!fields.empty() && !given) plan.refusal = study::fill_field(document, "parallel.data");
      plan.text = document.dump();
    }
  }
  return out;
}

std::string chosen_batch(const PlanChoice& choice, const std::vector<Phase>& phases) {
  const std::string field = "training.global_batch_size";
  if (choice.sequences_per_device > 0 || sets(choice, field) || all_set(phases, field) || has_batch(base_of(choice))) return "";
  return "no batch given: one sequence per device is assumed; set it by --sequences-per-device N or --global-batch N";
}

std::string chosen_layout(const PlanChoice& choice, const std::vector<Phase>& phases) {
  const auto is_layout = [](const std::string& field) { return field.starts_with("parallel.") && field != "parallel.data"; };
  const auto has_layout = [&](const Phase& phase) {
    return std::any_of(phase.fields.begin(), phase.fields.end(), [&](const auto& f) { return is_layout(f.first); });
  };
  const auto gives_layout = [&](const FieldValues& f) { return is_layout(f.field); };
  const bool given = std::any_of(choice.fields.begin(), choice.fields.end(), gives_layout);
  if (given || std::all_of(phases.begin(), phases.end(), has_layout) || !is_model(choice)) return "";
  return "no layout given: all ranks are data-parallel with ZeRO 3, which saves memory, not time; --search finds "
         "one that is much faster";
}

CandidatePlan changed(const CandidatePlan& plan, const Fields& fields) {
  json document = json::parse(plan.text);
  bool layout = false, data = false;
  for (const auto& [said, value] : fields) {
    require_field(said, "--what-if");
    const std::string field = study::present_name(said);
    study::set_field(document, field, value_of(value, "--what-if"));
    data = data || field == "parallel.data";
    layout = layout || field.starts_with("parallel.") || field == "cluster.devices";
  }
  CandidatePlan out = plan;
  if (layout && !data) out.refusal = study::fill_field(document, "parallel.data");
  out.text = document.dump();
  return out;
}

}  // namespace tandem::planning
