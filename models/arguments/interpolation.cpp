#include "models/arguments/interpolation.hpp"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "models/arguments/argument_text.hpp"

namespace tandem::arguments {
namespace {

using nlohmann::json;
using Path = std::vector<std::string>;

constexpr std::string_view kOpening = "${";
constexpr int kMostLookups = 10'000;  // interpolations of interpolations grow without bound

/// Where the interpolation that begins at `from` ends, behind its brace; npos if it is open.
std::size_t end_of(std::string_view text, std::size_t from) {
  int depth = 0;
  for (std::size_t i = from; i < text.size(); ++i) {
    if (text.substr(i).starts_with(kOpening)) ++depth;
    if (text[i] == '}' && --depth == 0) return i + 1;
  }
  return std::string_view::npos;
}

std::string_view trimmed(std::string_view text) {
  while (text.starts_with(' ')) text.remove_prefix(1);
  while (text.ends_with(' ')) text.remove_suffix(1);
  return text;
}

/// Parts of a text between commas, not those inside interpolations.
std::vector<std::string_view> arguments_of(std::string_view text) {
  std::vector<std::string_view> out;
  std::size_t begin = 0;
  for (std::size_t i = 0; i <= text.size(); ++i) {
    if (i < text.size() && text.substr(i).starts_with(kOpening)) i = std::min(end_of(text, i), text.size());
    if (i < text.size() && text[i] != ',') continue;
    out.push_back(trimmed(text.substr(begin, i - begin)));
    begin = i + 1;
  }
  return out;
}

Path path_of(std::string_view text) {
  Path out;
  std::string part;
  for (const char c : text) {
    if (c == '.' || c == '[') out.push_back(std::exchange(part, {}));
    else if (c != ']') part += c;
  }
  out.push_back(part);
  return out;
}

const json* child(const json* node, const std::string& name) {
  if (node->is_object() && node->contains(name)) return &(*node)[name];
  const bool digits = !name.empty() && name.size() < 9 && name.find_first_not_of("0123456789") == std::string::npos;
  if (node->is_array() && digits && std::stoul(name) < node->size()) return &(*node)[std::stoul(name)];
  return nullptr;
}

std::optional<json> calculated(const std::string& name, const std::vector<json>& values) {
  if (values.size() != 2 || !values[0].is_number() || !values[1].is_number()) return std::nullopt;
  const bool whole = values[0].is_number_integer() && values[1].is_number_integer();
  const double a = values[0].get<double>(), b = values[1].get<double>();
  std::optional<double> out;
  if (name == "multiply") out = a * b;
  if (name == "sum") out = a + b;
  if (name == "divide_floor" && b != 0) out = std::floor(a / b);
  if (name == "divide_ceil" && b != 0) out = std::ceil(a / b);
  constexpr double kExact = 9e15;
  if (!out || std::abs(*out) > kExact) return std::nullopt;
  return whole || name.starts_with("divide") ? json(std::llround(*out)) : json(*out);
}

class Resolver {
 public:
  Resolver(const json& root, std::string mounted) : root_(root), mounted_(std::move(mounted)) {}

  /// The document from `place` on, with what can be filled in.
  json resolved(const json& node, Path& place) {
    if (node.is_string()) return filled_in(node.get<std::string>(), place);
    json out = node;
    if (!node.is_structured()) return out;
    for (const auto& [key, value] : node.items()) {
      place.push_back(key);
      json& target = node.is_object() ? out[key] : out[std::stoul(key)];
      target = resolved(value, place);
      place.pop_back();
    }
    return out;
  }

 private:
  json filled_in(const std::string& text, const Path& place) {
    const std::size_t at = text.find(kOpening);
    if (at == std::string::npos) return text;
    if (at == 0 && end_of(text, 0) == text.size())
      return meaning(std::string_view(text).substr(2, text.size() - 3), place).value_or(text);
    const std::size_t end = end_of(text, at);
    if (end == std::string::npos) return text;
    const std::optional<json> inside = meaning(std::string_view(text).substr(at + 2, end - at - 3), place);
    const json rest = filled_in(text.substr(end), place);
    if (!inside || inside->is_structured()) return text;
    const auto word = [](const json& v) { return v.is_string() ? v.get<std::string>() : v.dump(); };
    return text.substr(0, at) + word(*inside) + word(rest);
  }

  /// What stands between the braces.
  std::optional<json> meaning(std::string_view inside, const Path& place) {
    const std::size_t colon = inside.find(':');
    if (colon == std::string_view::npos || inside.substr(0, colon).find(kOpening) != std::string_view::npos)
      return at_path(trimmed(inside), place);
    std::vector<json> values;
    for (const std::string_view argument : arguments_of(inside.substr(colon + 1))) {
      json value = filled_in(std::string(argument), place);
      values.push_back(value.is_string() ? argument_value(value.get<std::string>()) : std::move(value));
    }
    return calculated(std::string(inside.substr(0, colon)), values);
  }

  std::optional<json> at_path(std::string_view text, const Path& place) {
    if (text.empty() || text.find('$') != std::string_view::npos) return std::nullopt;
    std::size_t dots = 0;
    while (dots < text.size() && text[dots] == '.') ++dots;
    if (dots > place.size()) return std::nullopt;
    Path path = dots == 0 ? Path() : Path(place.begin(), place.end() - static_cast<std::ptrdiff_t>(dots));
    for (std::string& part : path_of(text.substr(dots))) path.push_back(std::move(part));
    if (const std::optional<json> there = at(path)) return there;
    if (dots > 0 || mounted_.empty() || path.front() != mounted_) return std::nullopt;
    path.erase(path.begin());
    return at(path);
  }

  std::optional<json> at(Path path) {
    const json* node = &root_;
    for (const std::string& part : path)
      if (node != nullptr) node = child(node, part);
    if (node == nullptr || open_.contains(path) || ++looked_up_ > kMostLookups) return std::nullopt;
    open_.insert(path);
    Path place = path;
    std::optional<json> out = resolved(*node, place);
    open_.erase(path);
    if (is_open(*out)) return std::nullopt;
    return out;
  }

  const json& root_;
  std::string mounted_;
  int looked_up_ = 0;
  std::set<Path> open_;  ///< being filled in: an interpolation of itself stands for nothing
};

}  // namespace

void resolve_interpolations(json& document, const std::string& mounted) {
  Path place;
  document = Resolver(json(document), mounted).resolved(document, place);
}

bool is_open(const json& value) {
  if (!value.is_string()) return false;
  const auto& text = value.get_ref<const std::string&>();
  return text == "???" || text.find(kOpening) != std::string::npos;
}

}  // namespace tandem::arguments
