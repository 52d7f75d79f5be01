#include "experiments/tandem/import/origins.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "models/base/text.hpp"
#include "reports/prediction/text.hpp"

namespace tandem::import {
namespace {

using huggingface::FieldValue;
using huggingface::ImportedField;
using huggingface::MissingFeature;
using nlohmann::ordered_json;

/// A value made from at most this many fields may be called a copy of one of them. With more, equality may be chance.
constexpr std::ptrdiff_t kFewFields = 4;

/// The field with the plan's value, if any. Fields of the file come before defaults.
const FieldValue* same_value(const ImportedField& f) {
  const auto there = [](const FieldValue& v) { return v.text != "null"; };
  if (std::count_if(f.value.from.begin(), f.value.from.end(), there) > kFewFields) return nullptr;
  const FieldValue* found = nullptr;
  for (const FieldValue& v : f.value.from)
    if (v.text == value_text(f.value.value()) && (found == nullptr || found->by_default)) found = &v;
  return found;
}

Origin origin_of(const ImportedField& f) {
  if (f.value.from.empty()) return Origin::architecture;
  const FieldValue* same = same_value(f);
  if (same == nullptr) return Origin::derived;
  return same->by_default ? Origin::defaulted : Origin::used;
}

const char* name(Origin origin) {
  switch (origin) {
    case Origin::used: return "used";
    case Origin::defaulted: return "defaulted";
    case Origin::derived: return "derived";
    case Origin::architecture: return "architecture";
  }
  return "";
}

std::string from_text(const ImportedField& f) {
  if (const FieldValue* same = same_value(f)) return same->field;
  std::vector<std::string> out;
  for (const FieldValue& v : f.value.from)
    if (v.text != "null" || f.value.from.size() == 1) out.push_back(v.field + " " + v.text + (v.by_default ? " (default)" : ""));
  return list_text(out);
}

std::string because(const MissingFeature& f) {
  std::vector<std::string> out;
  for (const FieldValue& v : f.fields) out.push_back(v.field + " = " + v.text);
  return list_text(out);
}

}  // namespace

std::string fields_text(const std::vector<ImportedField>& fields, Origin origin, const std::string& title) {
  std::string out;
  for (const ImportedField& f : fields) {
    if (origin_of(f) != origin) continue;
    const std::string value = value_text(f.value.value());
    const std::string from = origin == Origin::architecture ? value : padded(value, 14) + "  " + shortened(from_text(f), 90);
    out += "  " + padded(f.path, 52) + from + "\n";
  }
  return out.empty() ? "" : title + "\n" + out;
}

std::string features_text(const std::vector<MissingFeature>& features, bool approximate) {
  std::string out;
  for (const MissingFeature& f : features) {
    out += std::string("  ") + (f.refused ? approximate ? "left out: " : "refused: " : "told: ") + f.name;
    if (!f.fields.empty()) out += " (" + shortened(because(f), 90) + ")";
    if (f.parameters > 0) out += ", " + count_text(f.parameters) + " parameters";
    out += "; instead: " + f.instead + "\n";
  }
  return out.empty() ? "" : "what a plan cannot say\n" + out;
}

std::string list_line(const std::string& title, const std::vector<std::string>& names) {
  return names.empty() ? "" : title + ": " + list_text(names) + "\n";
}

ordered_json fields_json(const std::vector<ImportedField>& fields) {
  ordered_json out = ordered_json::array();
  for (const ImportedField& f : fields) {
    ordered_json from = ordered_json::array();
    for (const FieldValue& v : f.value.from) from.push_back({{"field", v.field}, {"value", v.text}, {"by_default", v.by_default}});
    out.push_back({{"field", f.path}, {"value", f.value.value()}, {"origin", name(origin_of(f))}, {"from", from}});
  }
  return out;
}

ordered_json features_json(const std::vector<MissingFeature>& features) {
  ordered_json out = ordered_json::array();
  for (const MissingFeature& f : features)
    out.push_back({{"name", f.name}, {"because", because(f)}, {"refused", f.refused}, {"instead", f.instead}, {"parameters", f.parameters}});
  return out;
}

}  // namespace tandem::import
