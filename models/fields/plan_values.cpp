#include "models/fields/plan_values.hpp"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "models/base/quantity.hpp"
#include "models/base/text.hpp"
#include "models/plan/balanced_split.hpp"

namespace tandem {
namespace {

using nlohmann::json;

constexpr double kSlowest = 1e6;  // bytes/s; a lower value usually has a wrong unit (as in presets)
constexpr double kExactInteger = 9007199254740992.0;  // 2^53: every whole double up to here is the number written

std::vector<std::string> words(Names names) { return {names.begin(), names.end()}; }

std::string in_quotes(std::string_view s) { return '"' + std::string(s) + '"'; }

/// A string that holds a bare JSON value, e.g. "8" or "true".
bool quotes_too_many(const json& v) {
  if (!v.is_string() || v.get_ref<const std::string&>().size() > 40) return false;
  const json inner = json::parse(v.get_ref<const std::string&>(), nullptr, false);
  return inner.is_number() || inner.is_boolean();
}

Refusal wrong_kind(const json& v, const std::string& wanted, std::string remedy = "") {
  if (v.is_null()) return {"is null", "leave the key out to take the default"};
  if (remedy.empty() && v == "auto") remedy = "tandem search chooses a value for \"auto\" and writes it with --out; others read a value";
  if (remedy.empty() && quotes_too_many(v)) remedy = "write " + v.get<std::string>() + " without quotes";
  return {"must be " + wanted + ", not " + kind_text(v), std::move(remedy)};
}

std::string span_text(const std::string& min, const std::string& max) { return "use " + min + " to " + max; }

Refusal too_large(IntRange r) { return {"is too large", "use at most " + std::to_string(r.max)}; }

std::optional<Refusal> in_range(std::int64_t v, IntRange r) {
  if (v < r.min) return Refusal{v < 0 ? "is negative" : "is too small", "use at least " + std::to_string(r.min)};
  if (v > r.max && r.max <= 1000)
    return Refusal{"is too large", span_text(std::to_string(r.min), std::to_string(r.max))};
  if (v > r.max) return too_large(r);
  return std::nullopt;
}

std::optional<Refusal> read_whole_double(double d, IntRange range, std::int64_t& out) {
  if (d != std::floor(d)) {
    const std::string low = number_text(std::floor(d)), high = number_text(std::ceil(d));
    return Refusal{"must be a whole number", std::abs(d) < kExactInteger ? "use " + low + " or " + high : ""};
  }
  if (std::abs(d) > kExactInteger)
    return d > 0 ? too_large(range) : Refusal{"is negative", "use at least " + std::to_string(range.min)};
  out = static_cast<std::int64_t>(d);
  return in_range(out, range);
}

Refusal outside(NumberRange r) {
  const std::string min = (r.open_min ? "more than " : "at least ") + number_text(r.min);
  if (r.max >= 1e300) return {"is out of range", "use " + min};
  return {"is out of range", "use " + min + " and " + (r.open_max ? "less than " : "at most ") + number_text(r.max)};
}

template <class T, class Parse>
std::optional<Refusal> read_quantity(const json& v, Parse parse, T& out) {
  try {
    out = parse(v.get_ref<const std::string&>());
    return std::nullopt;
  } catch (const ConfigError& e) {
    return Refusal{e.problems().front().reason, e.problems().front().remedy};
  }
}

std::vector<std::string> split_at_dashes(const std::string& s) {
  std::vector<std::string> parts(1);
  for (const char c : s) {
    if (c == '-')
      parts.emplace_back();
    else
      parts.back() += c;
  }
  return parts;
}

}  // namespace

std::string number_text(double v) {
  const std::string text = json(v).dump();
  return text.ends_with(".0") ? text.substr(0, text.size() - 2) : text;
}

std::optional<Refusal> read_value(const json& v, IntRange range, std::int64_t& out) {
  if (v.is_number_float()) return read_whole_double(v.get<double>(), range, out);
  if (!v.is_number_integer()) return wrong_kind(v, "a whole number");
  if (v.is_number_unsigned() && v.get<std::uint64_t>() > static_cast<std::uint64_t>(range.max)) return too_large(range);
  out = v.get<std::int64_t>();
  return in_range(out, range);
}

std::optional<Refusal> read_value(const json& v, NumberRange range, double& out) {
  if (!v.is_number()) return wrong_kind(v, "a number");
  const double d = v.get<double>();
  const bool low = range.open_min ? d <= range.min : d < range.min;
  const bool high = range.open_max ? d >= range.max : d > range.max;
  if (!std::isfinite(d) || low || high) return outside(range);
  out = d;
  return std::nullopt;
}

std::optional<Refusal> read_value(const json& v, bool& out) {
  if (!v.is_boolean()) return wrong_kind(v, "true or false", v.is_number() ? "write true or false" : "");
  out = v.get<bool>();
  return std::nullopt;
}

std::optional<Refusal> read_value(const json& v, std::string& out) {
  if (!v.is_string()) return wrong_kind(v, "a string", v.is_number() ? "put it in double quotes" : "");
  out = v.get<std::string>();
  return std::nullopt;
}

std::optional<Refusal> read_value(const json& v, IntRange range, Bytes& out) {
  if (!v.is_string() && !v.is_number())
    return wrong_kind(v, "a size", v.is_null() ? "" : "write for example \"160 MB\"");
  if (v.is_string()) {
    std::optional<Refusal> refused = read_quantity(v, parse_bytes, out);
    return refused ? refused : in_range(out.count(), range);
  }
  std::int64_t count = 0;
  std::optional<Refusal> refused = read_value(v, range, count);
  if (!refused) out = Bytes(count);
  return refused;
}

std::optional<Refusal> read_value(const json& v, Bandwidth& out) {
  if (v.is_string()) {
    std::optional<Refusal> refused = read_quantity(v, parse_bandwidth, out);
    if (refused || out.bytes_per_second() >= kSlowest) return refused;
    return Refusal{"is less than a megabyte a second", "write for example \"400 Gb/s\""};
  }
  if (v.is_number()) return Refusal{"has no unit", "write for example \"400 Gb/s\""};
  return wrong_kind(v, "a bandwidth", "write for example \"400 Gb/s\"");
}

std::optional<Refusal> read_choice(const json& v, Names names, std::size_t& out) {
  const std::vector<std::string> known = words(names);
  if (!v.is_string())
    return wrong_kind(v, "one of " + list_text(known, "or"), v.is_null() ? "" : "put it in double quotes");
  const auto& word = v.get_ref<const std::string&>();
  const auto found = std::find(names.begin(), names.end(), word);
  if (found == names.end()) {
    const std::string meant = nearest(word, known);
    return Refusal{"is not one of " + list_text(known, "or"),
                   meant.empty() ? "" : "did you mean " + in_quotes(meant) + "?"};
  }
  out = static_cast<std::size_t>(found - names.begin());
  return std::nullopt;
}

std::optional<Refusal> read_choices(const json& v, Names names, std::vector<std::string>& out) {
  if (!v.is_array()) return wrong_kind(v, "a list", v.is_string() ? "write [" + value_text(v) + "]" : "");
  out.clear();
  for (const json& entry : v) {
    std::size_t index = 0;
    if (auto refused = read_choice(entry, names, index)) {
      return Refusal{value_text(entry) + " " + refused->reason, refused->remedy};
    }
    const std::string word(names[index]);
    if (std::find(out.begin(), out.end(), word) != out.end())
      return Refusal{"names " + word + " twice", "name it once"};
    out.push_back(word);
  }
  return std::nullopt;
}

std::optional<Refusal> read_split(const json& v, IntRange range, std::vector<std::int64_t>& out) {
  const std::string example = "write for example [7, 8, 8, 7]";
  out.clear();
  if (v == "auto") return std::nullopt;
  if (v == "balanced") return out.assign(1, kBalanced), std::nullopt;
  if (!v.is_array()) return wrong_kind(v, "\"auto\", \"balanced\" or a list of layers per stage", v.is_null() ? "" : example);
  if (v.empty()) return Refusal{"is an empty list", "write \"auto\", or the layers of every stage"};
  for (const json& entry : v) {
    std::int64_t layers = 0;
    if (auto refused = read_value(entry, range, layers)) {
      return Refusal{value_text(entry) + " " + refused->reason, refused->remedy};
    }
    out.push_back(layers);
  }
  return std::nullopt;
}

std::optional<Refusal> read_rank_order(const json& v, std::string& out) {
  if (!v.is_string()) return wrong_kind(v, "a string");
  std::vector<std::string> axes = split_at_dashes(v.get<std::string>());
  std::sort(axes.begin(), axes.end());
  if (axes != std::vector<std::string>{"cp", "dp", "ep", "pp", "tp"}) {
    return Refusal{"does not name each of tp, cp, ep, dp and pp once",
                   "write them fastest first, e.g. \"tp-cp-ep-dp-pp\""};
  }
  out = v.get<std::string>();
  return std::nullopt;
}

json schema_of(IntRange range) { return {{"type", "integer"}, {"minimum", range.min}, {"maximum", range.max}}; }

json schema_of(NumberRange range) {
  json s{{"type", "number"}, {range.open_min ? "exclusiveMinimum" : "minimum", range.min}};
  if (range.max < 1e300) s[range.open_max ? "exclusiveMaximum" : "maximum"] = range.max;
  return s;
}

json schema_of_choice(Names names) { return {{"type", "string"}, {"enum", words(names)}}; }

json schema_of_type(std::string_view type) { return {{"type", std::string(type)}}; }

json schema_of_size(IntRange range) {
  json s = schema_of(range);
  s["type"] = {"integer", "string"};
  s["examples"] = {"160 MB"};
  return s;
}

json schema_of_bandwidth() { return {{"type", "string"}, {"examples", {"400 Gb/s"}}}; }

}  // namespace tandem
