#include "experiments/tandem/search/axes/axis.hpp"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "models/base/text.hpp"
#include "models/fields/plan_fields.hpp"

namespace tandem::search {

namespace {

using nlohmann::json;

/// Plans that differ in these fields do different work per step, so their times cannot be compared.
constexpr std::array<std::string_view, 8> kWork{"training.global_batch_size", "training.seq_length", "training.decoder_seq_length",
                                                "training.steps",             "training.seed",       "training.name",
                                                "training.notes",             "training.preset"};

struct Short {
  std::string_view said, field;
};
constexpr std::array kShort{Short{"tp", "parallel.tensor"},          Short{"pp", "parallel.pipeline"},
                            Short{"dp", "parallel.data"},            Short{"cp", "parallel.context"},
                            Short{"ep", "parallel.expert"},          Short{"vpp", "parallel.virtual_pipeline"},
                            Short{"sp", "parallel.sequence_parallel"}, Short{"zero", "parallel.zero_stage"},
                            Short{"mbs", "training.micro_batch_size"}};

bool may_vary(const std::string& field) {
  const bool part = field.starts_with("parallel.") || field.starts_with("training.");
  return part && find_field(field) != nullptr && std::find(kWork.begin(), kWork.end(), field) == kWork.end() &&
         field != "parallel.preset" && field != "parallel.name" && field != "parallel.notes";
}

std::vector<std::string> names() {
  std::vector<std::string> out;
  for (const PlanField& f : plan_fields())
    if (may_vary(f.path)) out.push_back(f.path.substr(f.path.find('.') + 1));
  return out;
}

/// The field that was probably meant: the same name in another section, else a similar name; else "".
std::string meant_by(const std::string& name) {
  const std::string leaf = name.substr(name.find('.') + 1);
  for (const char* section : {"parallel.", "training."})
    if (leaf != name && may_vary(section + leaf)) return section + leaf;
  return nearest(name, names());
}

std::string text_of(const json& value) { return value.is_string() ? value.get<std::string>() : value.dump(); }

/// Converts a command line value to JSON: itself if it is JSON, else a string.
std::string as_json(const std::string& word) {
  const json parsed = json::parse(word, nullptr, false);
  return parsed.is_discarded() ? json(word).dump() : parsed.dump();
}

std::vector<std::string> words_of(const std::string& list) {
  std::vector<std::string> out(1);
  int depth = 0;
  for (const char c : list) {
    depth += c == '[' ? 1 : c == ']' ? -1 : 0;
    if (c == ',' && depth == 0) out.emplace_back();
    else out.back() += c;
  }
  return out;
}

}  // namespace

std::string axis_field(const std::string& name, const std::string& file) {
  for (const Short& s : kShort)
    if (name == s.said) return std::string(s.field);
  for (const std::string& field : {name, "parallel." + name, "training." + name})
    if (may_vary(field)) return find_field(field)->path;  // of an older name the present one
  if (find_field(name) != nullptr || find_field("training." + name) != nullptr)
    throw ConfigError(Problem{file, name, "", "a search may not vary it: it changes the model, the cluster or the work of a step",
                              "vary fields of parallel and training, or search once for each value"});
  const std::string meant = meant_by(name);
  throw ConfigError(Problem{file, name, "", "is no field of a plan's parallel or training section",
                            meant.empty() ? "name a field such as tensor, pipeline or recompute" : "did you mean \"" + meant + "\"?"});
}

std::string short_name(const std::string& field) {
  for (const Short& s : kShort)
    if (field == s.field) return std::string(s.said);
  return field.substr(field.find('.') + 1);
}

std::string word_of(const std::string& json_text) { return text_of(json::parse(json_text)); }

AxisRequest read_axis(const std::string& text) {
  const std::size_t middle = text.find('=');
  if (middle == 0 || middle == std::string::npos || middle + 1 == text.size())
    throw ConfigError(Problem{"", "--axis", '"' + shortened(text) + '"', "is no axis", "write NAME=VALUE,... such as tensor=1,2,4"});
  AxisRequest out{axis_field(text.substr(0, middle), "--axis"), {}};
  for (const std::string& word : words_of(text.substr(middle + 1))) out.values.push_back(as_json(word));
  return out;
}

Axis make_axis(const AxisRequest& request) {
  const PlanField& field = *find_field(request.field);
  Axis axis{request.field, request.field.substr(request.field.find('.') + 1), {}};
  for (const std::string& text : request.values) {
    const auto value = std::make_shared<const json>(json::parse(text));
    Plan plan;
    if (const auto refused = field.read(*value, plan))
      throw ConfigError(Problem{"--axis", request.field, value_text(*value), refused->reason, refused->remedy});
    const auto same = [&](const AxisValue& v) { return v.text == text_of(*value); };
    if (std::any_of(axis.values.begin(), axis.values.end(), same))
      throw ConfigError(Problem{"--axis", request.field, value_text(*value), "is given twice", "give each value once"});
    axis.values.push_back({text_of(*value), [&field, value](Plan& p) { field.read(*value, p); }});
  }
  return axis;
}

std::vector<AxisValue> values_in(const std::vector<AxisRequest>& axes, const char* field) {
  const auto of = std::find_if(axes.begin(), axes.end(), [&](const AxisRequest& a) { return a.field == field; });
  return of == axes.end() ? std::vector<AxisValue>{{"", [](Plan&) {}}} : make_axis(*of).values;
}

}  // namespace tandem::search
