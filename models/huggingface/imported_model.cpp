#include "models/huggingface/imported_model.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "models/base/text.hpp"
#include "models/fields/plan_fields.hpp"
#include "models/huggingface/config_file.hpp"
#include "models/huggingface/model_type.hpp"

namespace tandem::huggingface {
namespace {

using nlohmann::json;

/// Entries of a list; the characters of a text, each as one.
std::vector<json> entries_of(const json& list) {
  std::vector<json> out(list.begin(), list.is_array() ? list.end() : list.begin());
  if (list.is_string())
    for (const char c : list.get_ref<const std::string&>()) out.push_back(std::string(1, c));
  return out;
}

/// The fields of one section of the plan, "model." or "training.".
std::vector<ImportedField> plan_fields_of(const json& table, Facts& facts, const char* section) {
  std::vector<ImportedField> out;
  for (const PlanField& f : plan_fields()) {
    if (!f.path.starts_with(section) || !table["plan"].contains(f.path)) continue;
    const json& expression = table["plan"][f.path];
    if (!expression.is_string()) continue;
    Traced value = facts.value(expression.get<std::string>());
    if (!value.value().is_null()) out.push_back({f.path, std::move(value)});
  }
  return out;
}

FieldValues given(FieldValues fields) {
  std::erase_if(fields, [](const FieldValue& f) { return f.text == "null"; });
  return fields;
}

/// Parameters of parts by the id of the feature that they belong to.
using FeatureParameters = std::vector<std::pair<std::string, std::int64_t>>;

/// Adds one part of the model, such as the matrices of its attention, to the counts.
void count_part(const json& part, Facts& facts, TrueCounts& counts, FeatureParameters& of_features) {
  const std::int64_t times = part.contains("count") ? facts.whole(part["count"].get<std::string>()) : 1;
  if (times == 0) return;
  const auto each = [&](const char* key) {
    return part.contains(key) ? facts.whole(part[key].get<std::string>()) : std::int64_t{0};
  };
  std::int64_t parameters = 0;
  const bool beside = part.value("beside", false);
  std::int64_t& sum = beside ? counts.mtp_parameters : counts.parameters;
  if (__builtin_mul_overflow(times, each("parameters"), &parameters) || __builtin_add_overflow(sum, parameters, &sum))
    throw ConfigError(Problem{"", "", "", "the model has more parameters than 64 bits count", "give smaller sizes"});
  if (!beside && !part.value("outside", false)) counts.text_parameters += parameters;
  const auto flops = [&](const char* key) { return part.contains(key) ? facts.number(part[key].get<std::string>()) : 0.0; };
  const double forward = static_cast<double>(times) * (2.0 * static_cast<double>(each("active")) + flops("flops"));
  counts.forward_flops += forward;
  const double training = part.contains("training") ? static_cast<double>(times) * flops("training") : 3 * forward;
  counts.training_flops += training;
  if (beside) counts.mtp_training_flops += training;
  if (part.contains("feature")) of_features.emplace_back(part["feature"].get<std::string>(), parameters);
}

std::vector<MissingFeature> features_of(const json& table, Facts& facts, TrueCounts& counts,
                                        const FeatureParameters& of_features) {
  std::vector<MissingFeature> out;
  for (const auto& [id, feature] : table["features"].items()) {
    if (!feature.is_object()) continue;
    const Traced there = facts.value(feature["when"].get<std::string>());
    if (there.value() != true) continue;
    MissingFeature f{feature["name"].get<std::string>(), given(there.from), feature.value("instead", "left out"),
                     !feature.value("told", false), 0, id, feature.value("training", false)};
    for (const auto& [of, parameters] : of_features) f.parameters += of == id ? parameters : 0;
    if (feature.value("uncounted", false)) counts.uncounted.push_back(f.name);
    if (feature.value("uncounted", false) && !feature.value("outside", false)) counts.text_complete = false;
    out.push_back(std::move(f));
  }
  return out;
}

/// Adds a refused feature for each kind of layers that no expression of the table reads: it would be taken for attention.
void refuse_other_layers(const json& table, Facts& facts, ImportedModel& out) {
  if (!table.contains("layer_lists")) return;
  const json& known = table["layer_kinds"];
  for (const auto& [list, why] : table["layer_lists"].items()) {
    if (why.is_null()) continue;
    const Traced layers = facts.value("$" + list);
    std::set<std::string> others;
    for (const json& kind : entries_of(layers.value()))
      if (!kind.is_string() || known.value(kind.get<std::string>(), json()).is_null()) others.insert(value_text(kind));
    for (const std::string& kind : others)
      out.features.push_back({"layers of the kind " + kind, layers.from, "attention to all earlier tokens", true, 0});
    if (others.empty()) continue;
    out.counts.uncounted.push_back("layers of other kinds");
    out.counts.text_complete = false;
  }
}

/// Whether a dotted path has `key` among its parts.
bool has_part(const std::string& path, const std::string& key) {
  return ("." + path + ".").find("." + key + ".") != std::string::npos;
}

void sort_unread(const json& table, const Facts& facts, ImportedModel& out) {
  const json& ignored = table["ignored"];
  for (const std::string& path : facts.unread()) {
    bool known = false;
    for (const auto& [key, why] : ignored.items()) known = known || has_part(path, key);
    (known ? out.ignored : out.unknown).push_back(path);
  }
}

}  // namespace

json ImportedModel::section() const {
  json out = json::object();
  for (const ImportedField& f : fields) {
    std::string pointer = f.path.substr(std::string("model").size());
    std::replace(pointer.begin(), pointer.end(), '.', '/');
    out[json::json_pointer(pointer)] = f.value.value();
  }
  return out;
}

ImportedModel import_model(const std::string& path, std::int64_t sequence) {
  return import_config(read_config(path), config_path(path), sequence);
}

ImportedModel import_config(const json& config, const std::string& file, std::int64_t sequence) {
  ImportedModel out;
  out.file = file;
  const ModelType type = model_type_of(config, out.file);
  const json& table = *type.table;
  out.model_type = type.name;
  out.name = model_name(config, out.file);
  out.sources = table["source"].get<std::vector<std::string>>();
  if (table.contains("impossible"))
    throw InfeasibleError(Problem{out.file, "model_type", '"' + type.name + '"', "not implemented: " + table["impossible"].get<std::string>(),
                                  "no plan comes near it; write the nearest model's fields yourself: docs/reference/plan-fields.md"});
  Facts facts(config, type.inner, table, out.file, sequence);
  for (const char* size : {"layers", "hidden", "heads", "kv_heads", "head_dim", "vocab"}) facts.whole(size);  // one error per field
  out.fields = plan_fields_of(table, facts, "model.");
  out.training = plan_fields_of(table, facts, "training.");
  FeatureParameters of_features;
  for (const auto& [id, part] : table["weights"].items())
    if (part.is_object()) count_part(part, facts, out.counts, of_features);
  out.counts.sequence = facts.sequence();
  out.features = features_of(table, facts, out.counts, of_features);
  refuse_other_layers(table, facts, out);
  sort_unread(table, facts, out);
  return out;
}

void refuse_other_counts(ImportedModel& model, std::int64_t plan_parameters) {
  const std::int64_t counted = model.counts.text_parameters + model.counts.mtp_parameters;
  if (!model.counts.text_complete || !refusals(model).empty() || counted == plan_parameters) return;
  const std::string counts = "a plan of " + std::to_string(plan_parameters) + " parameters for a model of " + std::to_string(counted);
  model.features.push_back({counts, {}, "the plan as it is", true, counted - plan_parameters});
}

std::vector<Problem> refusals(const ImportedModel& model) {
  std::vector<Problem> out;
  for (const MissingFeature& f : model.features) {
    if (!f.refused) continue;
    std::vector<std::string> names, values;
    for (const FieldValue& v : f.fields) names.push_back(v.field), values.push_back(shortened(v.text, 40));
    if (names.empty()) names = {"model_type"}, values = {'"' + model.model_type + '"'};
    out.push_back({model.file, list_text(names), list_text(values), "not implemented: " + f.name,
                   "`tandem import --approximate` says instead: " + f.instead});
  }
  return out;
}

}  // namespace tandem::huggingface
