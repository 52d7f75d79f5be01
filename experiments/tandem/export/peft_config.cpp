#include "experiments/tandem/export/peft_config.hpp"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <regex>
#include <string_view>

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

/// A pattern of Python's `re`, where ECMAScript reads it in the same way; an escape or a group that is Python's alone is refused.
std::regex pattern_of(const std::string& text, const PeftConfig& config, const char* field) {
  constexpr std::string_view kEscapes = "dwsbDWSBntrfv", kGroups = ":=!";
  const auto letter = [](char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0; };
  bool same = true;
  for (std::size_t i = 0; i + 1 < text.size(); ++i) {
    if (text[i] == '(' && text[i + 1] == '?') same = same && i + 2 < text.size() && kGroups.find(text[i + 2]) != std::string_view::npos;
    if (text[i] != '\\') continue;
    same = same && (!letter(text[i + 1]) || kEscapes.find(text[i + 1]) != std::string_view::npos);
    ++i;
  }
  try {
    if (same) return std::regex(text);
  } catch (const std::regex_error&) {
    same = false;  // told below
  }
  throw ConfigError(Problem{config.file, field, value_text(json(text)), "is no pattern that is read here", "list the modules, as in [\"q_proj\", \"v_proj\"]"});
}

/// What target_modules or exclude_modules chooses (huggingface/peft 0.21: src/peft/tuners/tuners_utils.py, check_target_module_exists).
class Choice {
 public:
  Choice(const PeftConfig& config, const char* field) {
    const json said = config.said->value(field, json());
    if (said.is_string()) pattern_ = pattern_of(said.get<std::string>(), config, field);
    else if (said.is_array() && std::all_of(said.begin(), said.end(), [](const json& name) { return name.is_string(); }))
      names_ = said.get<std::vector<std::string>>();
    else if (!said.is_null())
      throw ConfigError(Problem{config.file, field, value_text(said), "is neither a list of names of modules nor a pattern",
                                R"(list the modules, as in ["q_proj", "v_proj"], or write "all-linear")"});
  }
  bool has(const std::string& module) const {
    if (pattern_) return std::regex_match(module, *pattern_);
    const auto ends = [&](const std::string& name) { return module == name || module.ends_with("." + name); };
    return std::any_of(names_.begin(), names_.end(), ends);
  }
  const std::vector<std::string>& names() const { return names_; }
  bool empty() const { return !pattern_ && names_.empty(); }

 private:
  std::vector<std::string> names_;
  std::optional<std::regex> pattern_;
};

/// The modules of a target that the file chooses.
class Chosen {
 public:
  explicit Chosen(const PeftConfig& config)
      : config_(config), all_(config.said->value("target_modules", json()) == "all-linear"), targets_(config, "target_modules"), excluded_(config, "exclude_modules") {
    if (targets_.empty()) throw ConfigError(Problem{config.file, "target_modules", config.said_text("target_modules"), "is missing", R"(list the modules, as in ["q_proj", "v_proj"], or write "all-linear")"});
  }
  bool has(const std::string& module) const { return (all_ || targets_.has(module)) && !excluded_.has(module); }
  /// Throws ConfigError for a choice of some modules of a target.
  bool has(const huggingface::TargetModules& target) const {
    const auto is = [&](const std::string& m) { return has(m); };
    const auto here = std::find_if(target.modules.begin(), target.modules.end(), is);
    const auto not_here = std::find_if_not(target.modules.begin(), target.modules.end(), is);
    if (here == target.modules.end() || not_here == target.modules.end()) return here != target.modules.end();
    throw ConfigError(Problem{config_.file, "target_modules", config_.said_text("target_modules"),
                              "not implemented: it chooses " + *here + " and not " + *not_here + ", and a target has adapters in all layers",
                              "choose all layers' modules"});
  }
  /// Throws ConfigError for a name or a pattern that chooses what no adapter can be beside.
  void require_targets(const std::vector<huggingface::TargetModules>& targets, const std::vector<std::string>& others) const {
    const auto fail = [&](const std::string& module) {
      throw ConfigError(Problem{config_.file, "target_modules", module, "is no matrix of this model that can have an adapter", "leave it out"});
    };
    for (const std::string& name : targets_.names())
      if (std::none_of(targets.begin(), targets.end(), [&](const auto& t) { return t.named(name); })) fail(name);
    for (const std::string& other : others)
      if (!all_ && has(other)) fail(other);
    if (std::none_of(targets.begin(), targets.end(), [&](const auto& t) { return has(t); }))
      throw ConfigError(Problem{config_.file, "target_modules", config_.said_text("target_modules"), "chooses no matrix of this model", "give the pattern that training had"});
  }

 private:
  const PeftConfig& config_;
  bool all_;
  Choice targets_, excluded_;
};

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

std::vector<std::string> targets_said(const PeftConfig& config, const std::vector<huggingface::TargetModules>& targets,
                                      const std::vector<std::string>& others) {
  const Chosen chosen(config);
  chosen.require_targets(targets, others);
  std::vector<std::string> out;
  for (const huggingface::TargetModules& t : targets)
    if (chosen.has(t)) out.push_back(t.target);
  return out;
}

}  // namespace tandem::program
