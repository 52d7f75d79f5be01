#include "models/fields/fusion_file.hpp"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "models/base/held_files.hpp"
#include "models/base/json.hpp"
#include "models/base/left_out.hpp"
#include "models/base/presets.hpp"
#include "models/base/text.hpp"
#include "models/fields/plan_names.hpp"

namespace tandem {
namespace {

using nlohmann::json;

constexpr std::string_view kFolder = "models/stacks/fusions";
constexpr int kMostBases = 8;
constexpr std::int64_t kMostBytes = std::int64_t{1} << 40;

struct Flag {
  std::string_view name;
  bool FusionSet::*member;
};
struct Count {
  std::string_view name;
  std::int64_t FusionSet::*member;
};

#define FLAG(member) Flag{#member, &FusionSet::member}
#define COUNT(member) Count{#member, &FusionSet::member}
constexpr std::array kFlags{
    FLAG(allocates_by_dispatcher), FLAG(accumulating_products), FLAG(bias_gradient_in_product), FLAG(bias_activation),
    FLAG(activation_in_product),
    FLAG(residual_norm), FLAG(one_kernel_loss), FLAG(scores_scaled_apart), FLAG(mask_apart), FLAG(attention_dropout_apart),
    FLAG(dropout_apart), FLAG(gate_apart), FLAG(rms_apart), FLAG(norm_widened), FLAG(rotary_apart), FLAG(norm_gradients_apart),
    FLAG(whole_logits), FLAG(gathered_inputs), FLAG(norm_in_product_module),
    FLAG(gradients_cast_apart), FLAG(residual_gradient_apart), FLAG(rotated_copies), FLAG(norm_copies), FLAG(dropout_masks),
    FLAG(gate_kept), FLAG(gradient_stand_ins), FLAG(loss_in_place), FLAG(master_remainders),
    FLAG(narrow_gradients), FLAG(sharded_streams), FLAG(loss_copies), FLAG(softmax_widened), FLAG(own_unusual_attention)};
constexpr std::array kCounts{COUNT(product_workspace), COUNT(step_bytes), COUNT(cached_bytes), COUNT(cached_sharded_bytes),
                             COUNT(kept_logits), COUNT(metrics)};
#undef FLAG
#undef COUNT

[[noreturn]] void refuse(const std::string& path, const std::string& field, const json& value, const std::string& reason) {
  throw ConfigError(Problem{path, field, value_text(value), reason,
                            "write {\"name\": ..., \"base\": optional, \"notes\": ..., \"facts\": [{\"set\": {...}, \"source\": ..., "
                            "\"verified\": ...}]}"});
}

template <class Table>
auto row_of(const Table& table, std::string_view name) {
  return std::find_if(table.begin(), table.end(), [&](const auto& row) { return row.name == name; });
}

AttentionKernel kernel_of(const json& value, const std::string& path) {
  const auto& names = Spelling<AttentionKernel>::names;
  const auto found = value.is_string() ? std::find(names.begin(), names.end(), value.get<std::string>()) : names.end();
  if (found == names.end()) refuse(path, "attention", value, "is no kernel of attention: flash1, triton, flash2, tuned or own");
  return static_cast<AttentionKernel>(found - names.begin());
}

void apply(FusionSet& set, const std::string& key, const json& value, const std::string& path) {
  if (key == "attention") {
    set.attention = kernel_of(value, path);
  } else if (const auto* const flag = row_of(kFlags, key); flag != kFlags.end()) {
    if (!value.is_boolean()) refuse(path, key, value, "is neither true nor false");
    set.*(flag->member) = value.get<bool>();
  } else if (const auto* const count = row_of(kCounts, key); count != kCounts.end()) {
    if (!value.is_number_integer() || value < 0 || value > kMostBytes) refuse(path, key, value, "is no whole number from 0 up");
    set.*(count->member) = value.get<std::int64_t>();
  } else {
    refuse(path, key, value, "is nothing that a fusion set says");
  }
}

void apply_fact(FusionSet& set, const json& fact, const std::string& path) {
  const bool whole = fact.is_object() && fact.contains("set") && fact["set"].is_object() && fact.contains("source") && fact.contains("verified");
  if (!whole) refuse(path, "facts", fact, "lacks set, source or verified");
  if (fact["source"].is_string() && rests_on_left_out(fact["source"].get<std::string>())) return;
  for (const auto& [key, value] : fact["set"].items()) apply(set, key, value, path);
}

std::string path_of(std::string_view name) {
  const std::string path = find_preset(kFolder, name);
  if (path.empty()) throw ConfigError(unknown_preset(kFolder, name, "fusion set"));
  return path;
}

FusionSet read_set(std::string_view name, int bases_left) {
  const std::string path = path_of(name);
  const json file = read_json(path);
  if (!file.is_object() || !file.contains("facts") || !file["facts"].is_array()) refuse(path, "facts", file, "is missing or no list");
  FusionSet set;
  if (file.contains("base")) {
    if (!file["base"].is_string() || bases_left == 0) refuse(path, "base", file["base"], "is no other fusion set, or leads back to this one");
    set = read_set(file["base"].get<std::string>(), bases_left - 1);
  } else {
    set.allocates_by_dispatcher = false;
  }
  for (const json& fact : file["facts"]) apply_fact(set, fact, path);
  set.name = name;
  return set;
}

}  // namespace

FusionSet fusion_set(std::string_view name) {
  thread_local HeldAnswers<FusionSet> held;
  static SharedHeldAnswers<FusionSet> shared;
  if (!LeftOut::now().evidence.empty()) return read_set(name, kMostBases);
  return held.get(name, [&] { return shared.get(name, [&] { return read_set(name, kMostBases); }); });
}

std::vector<std::string> fusion_set_names() { return preset_names(kFolder); }

}  // namespace tandem
