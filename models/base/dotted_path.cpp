#include "models/base/dotted_path.hpp"

#include <nlohmann/json.hpp>
#include <string>

namespace tandem {

const nlohmann::json* find_dotted(const nlohmann::json& object, std::string_view path) {
  const nlohmann::json* at = &object;
  while (!path.empty()) {
    const std::size_t dot = path.find('.');
    const std::string key(path.substr(0, dot));
    if (!at->is_object() || !at->contains(key)) return nullptr;
    at = &(*at)[key];
    path = dot == std::string_view::npos ? "" : path.substr(dot + 1);
  }
  return at;
}

void put_dotted(nlohmann::ordered_json& object, std::string_view path, const nlohmann::json& value) {
  const std::size_t dot = path.find('.');
  const std::string key(path.substr(0, dot));
  if (dot == std::string_view::npos) object[key] = value;
  else put_dotted(object[key], path.substr(dot + 1), value);
}

}  // namespace tandem
