#include "models/stack/generations.hpp"

#include <nlohmann/json.hpp>

#include "models/base/json.hpp"
#include "models/base/presets.hpp"

namespace tandem {
namespace {

using nlohmann::json;

constexpr std::string_view kFolder = "models/stacks";

void add_texts(const json& list, std::set<std::string>& out) {
  for (const json& text : list)
    if (text.is_string()) out.insert(text.get<std::string>());
}

void add_generations(const json& at, std::set<std::string>& out) {
  if (!at.is_structured()) return;
  for (const auto& [key, value] : at.items()) {
    if (at.is_object() && key == "default_on") add_texts(value, out);
    if (at.is_object() && key == "device.generation")
      for (const json& list : value) add_texts(list, out);
    add_generations(value, out);
  }
}

}  // namespace

std::set<std::string> stack_generations(bool all) {
  std::set<std::string> out;
  for (const std::string& name : preset_names(kFolder)) try {
      add_generations(read_json(find_preset(kFolder, name)), out);
    } catch (const ConfigError&) {
      if (all) throw;
    }
  return out;
}

}  // namespace tandem
