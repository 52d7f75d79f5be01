#include "models/huggingface/model_type.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "models/base/dotted_path.hpp"
#include "models/base/presets.hpp"
#include "models/base/text.hpp"

namespace tandem::huggingface {
namespace {

using nlohmann::json;

constexpr int kDeepest = 8;  ///< tables that stand behind one another
constexpr const char* kParts[] = {"facts",    "defaults",    "outer_defaults", "plan",       "weights",
                                  "features", "ignored",     "spellings",      "layer_lists", "layer_kinds", "renamed"};

constexpr const char* kRemedy = "name a type with the same layers, or write the model's fields yourself: docs/reference/plan-fields.md";

/// A table that only others are like has a name in capitals: no model type is spelled so.
bool is_base(const std::string& name) { return !name.empty() && name.front() >= 'A' && name.front() <= 'Z'; }

void lay_over(json& table, const json& own) {
  for (const auto& [key, value] : own.items())
    if (std::find(std::begin(kParts), std::end(kParts), key) == std::end(kParts)) table[key] = value;
  for (const char* part : kParts)
    if (own.contains(part)) table[part].update(own[part]);
}

json completed(const std::string& name, int depth) {
  const std::string path = find_preset(kTypesFolder, name);
  if (path.empty() || depth > kDeepest)
    throw ConfigError(Problem{"", "like", '"' + name + '"', "is no table of models/huggingface/types", "name one that is there"});
  json own = read_json(path);
  if (!own.contains("like")) return own;
  json table = completed(own["like"].get<std::string>(), depth + 1);
  lay_over(table, own);
  return table;
}

/// The table of a model type that a configuration may name. Throws ConfigError.
json table_of(const std::string& type, const std::string& file, const std::string& field) {
  const std::vector<std::string> known = known_model_types();
  if (std::find(known.begin(), known.end(), type) != known.end()) return completed(type, 0);
  require_data_file(kTypesFolder, "Decoder.json");  // an installation without tables says so
  const std::string meant = nearest(type, known);
  // Other families have names as near: "xlm" is no "glm". A typing error seldom hits the first letter, or two of a short name.
  const bool near = !meant.empty() && meant.front() == type.front() && edit_distance(type, meant) <= 1 + type.size() / 8;
  throw ConfigError(Problem{file, field, '"' + shortened(type) + '"', "is no model type that is known here",
                            (near ? "the nearest is \"" + meant + "\"; " : "") + kRemedy + "; known are " + list_text(known)});
}

ModelType with_table(ModelType type, json table) {
  type.table = std::make_shared<const json>(std::move(table));
  return type;
}

/// The value of a field that must be a string; empty where it is not there.
std::string text_at(const json& object, const char* key, const std::string& field, const std::string& file) {
  if (!object.contains(key) || object[key].is_null()) return {};
  if (object[key].is_string()) return object[key].get<std::string>();
  throw ConfigError(Problem{file, field, value_text(object[key]), "must be a string, not " + kind_text(object[key]), "give the model type"});
}

/// The type whose class has most of the configuration's fields, at least three quarters of them. Empty if none has.
std::string most_like(const json& config) {
  std::string best;
  std::size_t most = config.size() * 3 / 4;
  for (const std::string& type : known_model_types()) {
    const json table = completed(type, 0);
    std::size_t shared = 0;
    const json defaults = table.value("defaults", json::object()), ignored = table.value("ignored", json::object());
    for (const auto& [field, value] : config.items()) shared += defaults.contains(field) || ignored.contains(field) ? 1 : 0;
    if (shared > most) most = shared, best = type;
  }
  return best;
}

/// What to do about a configuration that does not say its type.
std::string remedy_without_type(const json& config) {
  if (config.contains("model")) return "this is a plan or a preset, which needs no import";
  const std::string like = most_like(config);
  if (!like.empty()) return R"(add it; the fields are those of "model_type": ")" + like + '"';
  return "give it: known are " + list_text(known_model_types());
}

}  // namespace

std::vector<std::string> known_model_types() {
  std::vector<std::string> names = preset_names(kTypesFolder);
  std::erase_if(names, is_base);
  return names;
}

ModelType model_type_of(const json& config, const std::string& file) {
  ModelType out;
  out.name = text_at(config, "model_type", "model_type", file);
  if (out.name.empty())
    throw ConfigError(Problem{file, "model_type", "", "is missing", remedy_without_type(config)});
  json own = table_of(out.name, file, "model_type");
  const std::string inner = own.value("inner", "");
  if (inner.empty()) return with_table(std::move(out), std::move(own));
  std::string type = own.value("inner_type", "");
  if (const json* described = find_dotted(config, inner)) {
    if (!described->is_object())
      throw ConfigError(Problem{file, inner, value_text(*described), "must be an object, not " + kind_text(*described), ""});
    out.inner = inner;
    const std::string said = text_at(*described, "model_type", inner + ".model_type", file);
    if (!said.empty()) type = said;
  }
  if (type.empty()) throw ConfigError(Problem{file, inner, "", "is missing", "give the object that describes the language model"});
  json table = table_of(type, file, inner + ".model_type");
  lay_over(table, own);
  return with_table(std::move(out), std::move(table));
}

}  // namespace tandem::huggingface
