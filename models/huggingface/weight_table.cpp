#include "models/huggingface/weight_table.hpp"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "models/base/dotted_path.hpp"
#include "models/base/presets.hpp"
#include "models/base/text.hpp"
#include "models/huggingface/facts.hpp"
#include "models/huggingface/model_type.hpp"

namespace tandem::huggingface {
namespace {

using nlohmann::json;

constexpr int kDeepest = 8;  // tables that stand behind one another

/// An entry that is null removes the one below.
void lay_over(json& entries, const json& own) {
  for (const auto& [key, value] : own.items()) value.is_null() ? void(entries.erase(key)) : void(entries[key] = value);
}

/// A table laid over the one that it is like.
json completed(const std::string& type, int depth) {
  const std::string path = find_preset(kWeightsFolder, type);
  if (path.empty() || depth > kDeepest)
    throw ConfigError(Problem{"", "like", '"' + type + '"', "is no table of models/huggingface/weights", "name one that is there"});
  json own = read_json(path);
  if (!own.contains("like")) return own;
  json table = completed(own["like"].get<std::string>(), depth + 1);
  for (const auto& [key, value] : own.items())
    if (value.is_object()) lay_over(table[key], value);
    else table[key] = value;
  return table;
}

constexpr std::array kOrders{std::pair{"plain", TensorRule::Rows::plain}, std::pair{"alternating", TensorRule::Rows::alternating},
                             std::pair{"groups", TensorRule::Rows::groups},
                             std::pair{"latent_queries", TensorRule::Rows::latent_queries},
                             std::pair{"latent_keys", TensorRule::Rows::latent_keys}, std::pair{"halves", TensorRule::Rows::halves},
                             std::pair{"gated_groups", TensorRule::Rows::gated_groups},
                             std::pair{"recurrence", TensorRule::Rows::recurrence},
                             std::pair{"recurrence_heads", TensorRule::Rows::recurrence_heads},
                             std::pair{"recurrence_conv", TensorRule::Rows::recurrence_conv}, std::pair{"heads", TensorRule::Rows::heads},
                             std::pair{"mamba_in", TensorRule::Rows::mamba_in}, std::pair{"mamba_conv", TensorRule::Rows::mamba_conv},
                             std::pair{"mamba_bias", TensorRule::Rows::mamba_bias}};

/// Whether a rule of these rows may name `n` tensors.
bool names_so_many(TensorRule::Rows rows, std::size_t n) {
  using Rows = TensorRule::Rows;
  switch (rows) {
    case Rows::groups: return n == 1 || n == 3;
    case Rows::alternating: return n >= 1;
    case Rows::gated_groups: return n == 3;
    case Rows::recurrence: return n == 4;
    case Rows::recurrence_heads: case Rows::heads: return n == 2;
    default: return n == 1;
  }
}

bool readable(const TensorRule& rule) {
  return names_so_many(rule.rows, rule.of.size());
}

/// A text, or an object whose key says how the rows lie: {"groups": [...], "transposed": true}.
TensorRule rule_of(const std::string& parameter, const json& entry, const std::string& type) {
  TensorRule rule;
  if (entry.is_string()) return rule.of = {entry.get<std::string>()}, rule;
  rule.transposed = entry.value("transposed", false);
  rule.stacked = entry.value("stacked", false);
  rule.interleaved = entry.value("interleaved", false);
  rule.offset = entry.value("offset", 0.0);
  rule.shift = entry.value("shift", std::int64_t{0});
  for (const auto& [word, rows] : kOrders)
    if (entry.contains(word)) rule.rows = rows, rule.of = entry[word].get<std::vector<std::string>>();
  if (!readable(rule)) throw ConfigError(Problem{"models/huggingface/weights/" + type + ".json", parameter, value_text(entry), "says no order of rows", "see models/huggingface/README.md"});
  return rule;
}

/// A language model beside towers has its tensors under other beginnings: `beginnings` has its own and those.
TensorRule renamed(TensorRule rule, const std::map<std::string, std::string>& beginnings) {
  for (std::string& name : rule.of) {
    const auto begins = [&](const auto& pair) { return name.starts_with(pair.first); };
    const auto found = std::find_if(beginnings.begin(), beginnings.end(), begins);
    if (found != beginnings.end()) name.replace(0, found->first.size(), found->second);
  }
  return rule;
}

/// The value at a dotted path; null where there is none.
json at_path(const json& document, const std::string& path) {
  const json* found = find_dotted(document, path);
  return found == nullptr ? json() : *found;
}

class PlanNames final : public Names {
 public:
  explicit PlanNames(const json& plan) : plan_(plan) {}
  json field(const std::string& path) override { return at_path(plan_, path); }
  json fact(const std::string& name) override { unknown(name); }
  /// layer_kinds(letters, letter, kind, other): one word a layer; `kind` where the plan's letters, which repeat, have `letter`. `other` may
  /// be such a list. layers_with(letters, letter): the numbers of the layers that have `letter`.
  json call(const std::string& name, const std::vector<json>& a) override {
    const bool kinds = name == "layer_kinds" && a.size() == 4;
    if (!kinds && (name != "layers_with" || a.size() != 2)) unknown(name);
    const std::string letters = a[0], letter = a[1];
    const auto layers = at_path(plan_, "model.num_layers").get<std::size_t>();
    json out = json::array();
    for (std::size_t i = 0; i < layers; ++i) {
      const bool has = letters[i % letters.size()] == letter.front();
      if (kinds) out.push_back(has ? a[2] : a[3].is_array() ? a[3].at(i) : a[3]);
      else if (has) out.push_back(i);
    }
    return out;
  }

 private:
  [[noreturn]] static void unknown(const std::string& name) {
    throw ConfigError(Problem{"models/huggingface/weights", "config", name, "is no field of a plan", "write $model.FIELD"});
  }
  const json& plan_;
};

}  // namespace

std::vector<std::string> types_with_weights() { return preset_names(kWeightsFolder); }

WeightTable weight_table(const std::string& type) {
  const std::vector<std::string> known = types_with_weights();
  if (std::find(known.begin(), known.end(), type) == known.end())
    throw ConfigError(Problem{"", "model_type", '"' + shortened(type) + '"', "has no table of the names of its weights",
                              known.empty() ? "install Tandem's data, or set TANDEM_PRESETS" : "types with one are " + list_text(known)});
  const json file = completed(type, 0);
  const auto words = [&](const char* key) { return file.value(key, std::vector<std::string>()); };
  WeightTable table;
  table.type = type;
  table.architecture = file.at("architecture");
  table.prefix = file.value("prefix", "");
  table.after_others = file.value("after_others", false);
  table.left_out = words("left_out"), table.towers = words("towers");
  table.left_out.insert(table.left_out.end(), table.towers.begin(), table.towers.end());
  table.ignored = words("ignored"), table.nulls = words("nulls"), table.drawn = words("drawn");
  const auto names = [&](const char* key) { return file.value(key, std::map<std::string, std::string>()); };
  table.copies = names("copies"), table.old_endings = names("old_endings");
  for (const auto& [name, entry] : file.at("parameters").items()) table.parameters[name] = renamed(rule_of(name, entry, type), names("renamed"));
  for (const auto& [field, expression] : file.at("config").items()) table.config[field] = expression.get<std::string>();
  const json differences = file.value("differences", json::object());
  for (const auto& [id, entry] : differences.items())
    table.differences.push_back({entry.at("name"), entry.value("instead", "left out"), entry.value("field", ""), entry.value("told", false), entry.at("when")});
  return table;
}

json config_of(const WeightTable& table, const json& plan) {
  PlanNames names(plan);
  json config{{"architectures", {table.architecture}}, {"model_type", table.type}, {"bos_token_id", nullptr}, {"eos_token_id", nullptr},
              {"pad_token_id", nullptr}};
  for (const auto& [field, expression] : table.config) {
    const json value = evaluate(expression, names);
    if (value.is_null() && std::find(table.nulls.begin(), table.nulls.end(), field) == table.nulls.end()) continue;
    std::string pointer = "/" + field;
    std::replace(pointer.begin(), pointer.end(), '.', '/');
    config[json::json_pointer(pointer)] = value;
  }
  return config;
}

std::int64_t scaled_block(const json& config) {
  const json said = config.value("quantization_config", json::object());
  if (!said.is_object() || said.value("quant_method", json()) != "fp8" || said.value("fmt", json("e4m3")) != "e4m3") return 0;
  const json block = said.value("weight_block_size", json());
  const bool square = block.is_array() && block.size() == 2 && block[0] == block[1] && block[0].is_number_integer();
  return square ? block[0].get<std::int64_t>() : 0;
}

WeightTable for_configuration(WeightTable table, const json& config) {
  table.scaled_block = scaled_block(config);
  return table;
}

std::vector<WeightDifference> weight_differences(const WeightTable& table, const json& config, const std::string& file) {
  const ModelType type = model_type_of(config, file);
  Facts facts(config, type.inner, *type.table, file, 0);
  std::vector<WeightDifference> out;
  for (const WeightDifference& d : table.differences)
    if (facts.truth(d.when)) out.push_back(d);
  return out;
}

}  // namespace tandem::huggingface
