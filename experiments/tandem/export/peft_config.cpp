#include "experiments/tandem/export/peft_config.hpp"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "models/base/error.hpp"

namespace tandem::program {
namespace {

using nlohmann::json;

constexpr const char* kMerge = "merge the adapter into its model: peft's merge_and_unload, then --weights";

/// A field that a plain adapter leaves at `plain`, and what another value does.
struct OtherMethod {
  const char* field;
  json plain;
  const char* reason;
};

std::vector<OtherMethod> other_methods() {
  constexpr const char* other = "only plain LoRA is read";
  return {{"peft_type", "LORA", other},
          {"use_dora", false, "DoRA trains the lengths of the matrix' rows, too"},
          {"bias", "none", "the model's biases are frozen"},
          {"lora_bias", false, "B has no bias"},
          {"modules_to_save", nullptr, "all modules are frozen, adapters alone are trained"},
          {"trainable_token_indices", nullptr, "the embedding is frozen"},
          {"rank_pattern", json::object(), "all targets have one rank, training.lora.rank"},
          {"alpha_pattern", json::object(), "all targets have one factor, training.lora.alpha / rank"},
          {"layers_to_transform", nullptr, "all layers have the same targets"},
          {"target_parameters", nullptr, "adapters are beside modules"},
          {"layer_replication", nullptr, "it repeats layers of the model"},
          {"alora_invocation_tokens", nullptr, other},
          {"use_qalora", false, other},
          {"monteclora_config", nullptr, other},
          {"velora_config", nullptr, other},
          {"arrow_config", nullptr, other}};
}

void add_other_methods(const json& config, const std::string& file, std::vector<Problem>& out) {
  for (const OtherMethod& method : other_methods())
    if (const json said = config.value(method.field, method.plain);
        said != method.plain && !said.is_null() && !(said.is_structured() && said.empty()))
      out.push_back({file, method.field, value_text(said), std::string("not implemented: ") + method.reason, kMerge});
  // PiSSA, OLoRA, CorDA and LoftQ change the model's own weights at their start, and the adapter fits those alone.
  const json start = config.value("init_lora_weights", json(true));
  if (start.is_string() && start != "gaussian" && start != "orthogonal" && start != "eva")
    out.push_back({file, "init_lora_weights", value_text(start), "not implemented: it changes the model's own weights", kMerge});
}

/// Throws ConfigError unless the file is an object whose fields have the types that are read.
void require_types(const json& config, const std::string& file) {
  if (!config.is_object()) throw ConfigError(Problem{file, "", "", "is " + kind_text(config) + ", not an object", ""});
  std::vector<Problem> problems;
  for (const char* field : {"r", "lora_alpha", "lora_dropout"})
    if (config.contains(field) && !config[field].is_number())
      problems.push_back({file, field, value_text(config[field]), "is " + kind_text(config[field]) + ", not a number", ""});
  if (config.contains("r") && config["r"].is_number() && config["r"] <= 0)
    problems.push_back({file, "r", value_text(config["r"]), "is not above 0", ""});
  if (config.contains("use_rslora") && !config["use_rslora"].is_boolean())
    problems.push_back({file, "use_rslora", value_text(config["use_rslora"]), "is neither true nor false", ""});
  if (!problems.empty()) throw ConfigError(problems);
}

/// target_modules as names. all-linear: every target's.
std::vector<std::string> names_said(const PeftConfig& config) {
  const json said = config.said->value("target_modules", json());
  std::vector<std::string> names;
  const bool list = said.is_array() && std::all_of(said.begin(), said.end(), [](const json& name) { return name.is_string(); });
  if (list) names = said.get<std::vector<std::string>>();
  if (!names.empty()) return names;
  throw ConfigError(Problem{config.file, "target_modules", said.is_null() ? "" : value_text(said),
                            said.is_null() ? "is missing" : "is no list of names of modules",
                            R"(list the modules, as in ["q_proj", "v_proj"], or write "all-linear")"});
}

}  // namespace

std::string PeftConfig::said_text(const std::string& field) const {
  return said->contains(field) ? value_text(said->at(field)) : "";
}

double PeftConfig::plan_alpha() const { return factor == lora_alpha / rank ? lora_alpha : factor * rank; }

PeftConfig read_peft_config(const std::string& folder) {
  PeftConfig c;
  c.file = folder + "/adapter_config.json";
  c.said = std::make_shared<const json>(read_json(c.file));
  require_types(*c.said, c.file);
  std::vector<Problem> problems;
  add_other_methods(*c.said, c.file, problems);
  if (!problems.empty()) throw ConfigError(problems);
  c.rank = c.said->value("r", c.rank);
  c.lora_alpha = c.said->value("lora_alpha", c.lora_alpha);
  c.dropout = c.said->value("lora_dropout", c.dropout);
  c.factor = c.lora_alpha / (c.said->value("use_rslora", false) ? std::sqrt(c.rank) : c.rank);
  return c;
}

std::vector<std::string> targets_said(const PeftConfig& config, const std::vector<huggingface::TargetModules>& targets) {
  if (const json some = config.said->value("exclude_modules", json()); !some.is_null() && !(some.is_structured() && some.empty()))
    throw ConfigError(Problem{config.file, "exclude_modules", value_text(some), "not implemented: a target has adapters in all layers", "list target_modules without them"});
  std::vector<std::string> out;
  if (config.said->value("target_modules", json()) == "all-linear") {
    for (const huggingface::TargetModules& t : targets) out.push_back(t.target);
    return out;
  }
  const std::vector<std::string> names = names_said(config);
  for (const std::string& name : names)
    if (std::none_of(targets.begin(), targets.end(), [&](const auto& t) { return t.named(name); }))
      throw ConfigError(Problem{config.file, "target_modules", name, "is no matrix of this model that can have an adapter", "leave it out"});
  for (const huggingface::TargetModules& t : targets)
    if (std::any_of(names.begin(), names.end(), [&](const std::string& name) { return t.named(name); })) out.push_back(t.target);
  return out;
}

}  // namespace tandem::program
