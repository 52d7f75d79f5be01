#include "models/arguments/unread_arguments.hpp"

#include <algorithm>
#include <cctype>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "models/base/dotted_path.hpp"
#include "models/base/text.hpp"

namespace tandem::arguments {
namespace {

using nlohmann::json;

bool any_covers(const json& patterns, const std::string& name) {
  for (const auto& [pattern, why] : patterns.items())
    if (covers(pattern, name)) return true;
  return false;
}

/// Whether an argument says nothing: it has its default, is off and not on by default, or was a section of fields that are all "auto".
bool says_nothing(const Table& table, const std::string& name, const json& value) {
  if (value.is_null() || (value.is_object() && value.empty())) return true;
  const json usual = table.has(name) ? table.document->at("defaults").value(name, json()) : json();
  return value == usual || (value == false && usual != true);
}

/// Names behind a dollar sign in all expressions of a section.
void collect_names(const json& section, std::set<std::string>& out) {
  if (section.is_structured())
    for (const json& inner : section) collect_names(inner, out);
  if (!section.is_string()) return;
  const auto& text = section.get_ref<const std::string&>();
  const auto in_name = [](char c) { return c == '_' || c == '.' || std::isalnum(static_cast<unsigned char>(c)) != 0; };
  for (std::size_t at = text.find('$'); at != std::string::npos; at = text.find('$', at)) {
    const auto begin = text.begin() + static_cast<std::ptrdiff_t>(++at);
    out.emplace(begin, std::find_if_not(begin, text.end(), in_name));
  }
}

/// Whether a field of a JSON file stands in a section that is switched off: fp16.loss_scale beside fp16.enabled false.
bool is_off(const json& values, const std::string& name) {
  for (std::size_t dot = name.rfind('.'); dot != std::string::npos && dot > 0; dot = name.rfind('.', dot - 1))
    if (const json* enabled = find_dotted(values, name.substr(0, dot) + ".enabled"); enabled != nullptr && *enabled == false) return true;
  return false;
}

void refuse(const std::string& name, const json& value, std::string what, ImportedPlan& out) {
  out.features.push_back({std::move(what), {{name, value_text(value), false}}, "the plan without it", true, 0});
}

/// The option that a script's own option may be a slip of: two letters away at most, or other dashes.
std::string misspelt(const Table& table, const std::string& name) {
  std::string best;
  std::size_t fewest = 3;
  for (const auto& [option, argument] : table.options->items()) {
    const std::size_t d = edit_distance(name, option);
    if (d < fewest && name.size() > 2 * d + 4) fewest = d, best = option;
  }
  return best;
}

/// An option that the user's own script may have. One that may change what is trained is refused, and a slip of a known one.
void add_own(const Table& table, const std::string& name, const json& value, huggingface::MissingFeature& own, ImportedPlan& out) {
  const json matters = table.document->value("command", json::object()).value("matters", json::object());
  if (any_covers(matters, name)) return refuse(name, value, "an option of the script's own that may change what is trained", out);
  if (const std::string meant = misspelt(table, name); !meant.empty()) {
    out.unknown.push_back(name + " (the nearest is " + meant + ")");
    return refuse(name, value, "an option that is nearly " + meant, out);
  }
  out.unknown.push_back(name);
  own.fields.insert({name, value_text(value), false});
}

/// One argument with a value that says something, and that nothing ignores.
void add_unread(const Table& table, const std::string& name, const json& value, ImportedPlan& out) {
  if (table.has(name) || out.printed) {
    out.unsaid.push_back(name);
    if (table.has(name)) refuse(name, value, "an option that no field of a plan says, and that may change the step", out);
    return;
  }
  const std::string meant = table.nearest_option(name);
  out.unknown.push_back(name + (meant.empty() ? "" : " (the nearest is " + meant + ")"));
  refuse(name, value, "an option that is not known here", out);
}

}  // namespace

std::set<std::string> read_somewhere(const Table& table) {
  std::set<std::string> out;
  for (const char* section : {"facts", "plan", "features"}) collect_names(table.document->at(section), out);
  return out;
}

void sort_unread(const Table& table, const huggingface::Facts& facts, const Arguments& arguments, ImportedPlan& out) {
  const std::set<std::string> elsewhere = read_somewhere(table);
  huggingface::MissingFeature own{"options of the script's own", {}, "the plan without them", false};
  for (const std::string& name : facts.unread()) {
    const json* value = find_dotted(*arguments.values, name);
    if (value != nullptr && says_nothing(table, name, *value)) continue;
    if (arguments.printed && any_covers(table.document->at("printed"), name)) continue;
    const bool launches = arguments.launcher.contains(name) && !table.has(name);
    const bool without_effect = launches || elsewhere.contains(name) || is_off(*arguments.values, name) || name.starts_with("env.");
    if (without_effect || any_covers(table.document->at("ignored"), name)) out.ignored.push_back(name);
    else if (arguments.own_script && !table.has(name)) add_own(table, name, value == nullptr ? json() : *value, own, out);
    else add_unread(table, name, value == nullptr ? json() : *value, out);
  }
  if (!own.fields.empty()) out.features.push_back(std::move(own));
}

}  // namespace tandem::arguments
