// The JSON Schema, the parser and the printer come from one table; here they are held against each other.

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <regex>
#include <string>

#include "models/base/json.hpp"
#include "models/plan/plan.hpp"
#include "tests/catch.hpp"
#include "tests/models/planfile/plan_text.hpp"
#include "tests/source_dir.hpp"
#include "topology/plan_reader.hpp"

using namespace tandem;
using namespace tandem::test;
using nlohmann::json;

namespace {

bool has_type(const std::string& type, const json& v) {
  if (type == "integer")
    return v.is_number_integer() || (v.is_number_float() && v.get<double>() == std::floor(v.get<double>()));
  if (type == "number") return v.is_number();
  if (type == "string") return v.is_string();
  if (type == "boolean") return v.is_boolean();
  if (type == "array") return v.is_array();
  return type == "object" && v.is_object();
}

bool valid(const json& schema, const json& v);

bool any_of(const json& schemas, const json& v) {
  return std::any_of(schemas.begin(), schemas.end(), [&](const json& s) { return valid(s, v); });
}

bool valid_type(const json& type, const json& v) {
  if (type.is_string()) return has_type(type, v);
  return std::any_of(type.begin(), type.end(), [&](const json& t) { return has_type(t, v); });
}

bool valid_number(const json& s, double d) {
  return d >= s.value("minimum", -1e308) && d <= s.value("maximum", 1e308) &&
         d > s.value("exclusiveMinimum", -INFINITY) && d < s.value("exclusiveMaximum", INFINITY);
}

bool valid_object(const json& s, const json& v) {
  const json properties = s.value("properties", json::object());
  for (const auto& [key, member] : v.items()) {
    if (!properties.contains(key) && !s.value("additionalProperties", true)) return false;
    if (properties.contains(key) && !valid(properties[key], member)) return false;
  }
  const json required = s.value("required", json::array());
  return std::all_of(required.begin(), required.end(),
                     [&](const json& key) { return v.contains(key.get<std::string>()); });
}

/// As much of draft-07 as the generated schema uses.
bool valid(const json& s, const json& v) {
  if (s.contains("type") && !valid_type(s["type"], v)) return false;
  if (s.contains("enum") && std::find(s["enum"].begin(), s["enum"].end(), v) == s["enum"].end()) return false;
  if (s.contains("const") && s["const"] != v) return false;
  if (s.contains("anyOf") && !any_of(s["anyOf"], v)) return false;
  if (s.contains("pattern") && v.is_string() &&
      !std::regex_search(v.get<std::string>(), std::regex(s["pattern"].get<std::string>())))
    return false;
  if (v.is_number() && !valid_number(s, v.get<double>())) return false;
  if (v.is_array() && s.contains("minItems") && v.size() < s["minItems"].get<std::size_t>()) return false;
  if (v.is_array() && s.contains("items") &&
      !std::all_of(v.begin(), v.end(), [&](const json& e) { return valid(s["items"], e); }))
    return false;
  return !v.is_object() || valid_object(s, v);
}

void collect_leaves(const json& schema, const std::string& prefix, std::vector<std::string>& leaves) {
  for (const auto& [key, child] : schema["properties"].items()) {
    const std::string path = prefix.empty() ? key : prefix + "." + key;
    if (child.contains("properties"))
      collect_leaves(child, path, leaves);
    else
      leaves.push_back(path);
  }
}

json::json_pointer pointer(std::string path) {
  std::replace(path.begin(), path.end(), '.', '/');
  return json::json_pointer("/" + path);
}

/// Whether the parser refuses the value of this very field by its type, range or choice.
bool refuses(const json& plan, const std::string& field) {
  try {
    parse_plan(plan.dump(), "probe.json");
  } catch (const InfeasibleError&) {
    return false;
  } catch (const ConfigError& e) {
    return std::any_of(e.problems().begin(), e.problems().end(), [&](const Problem& p) {
      const bool relation = p.reason.find("too large: ") == 0 || p.reason.find("only the t5") == 0 ||
                            p.reason.find("is no power of two") == 0 || p.reason.find("is above ") == 0 ||
                            p.reason.find("the decay would") == 0;
      return p.field == field && !relation;
    });
  }
  return false;
}

const json& schema() {
  static const json s = json::parse(plan_json_schema());
  return s;
}

}  // namespace

TEST_CASE("the schema asks for devices where nothing says parallel.data") {
  json plan = json::parse(kGoodPlan);
  plan["cluster"].erase("devices");
  CHECK(valid(schema(), plan));
  plan["parallel"].erase("data");
  CHECK_FALSE(valid(schema(), plan));
  plan["parallel"]["preset"] = "fully-sharded";
  CHECK(valid(schema(), plan));
  plan.erase("parallel");
  CHECK_FALSE(valid(schema(), plan));
}

TEST_CASE("the schema and the parser accept and refuse the same values of every field") {
  json good = json::parse(kGoodPlan);
  REQUIRE(valid(schema(), good));
  good["stack"] = {{"name", "tandem"}};
  REQUIRE(valid(schema(), good));
  std::vector<std::string> leaves;
  collect_leaves(schema(), "", leaves);
  CHECK(leaves.size() > 100);
  const std::vector<json> probes{
      -1,     0, 1, 2.0, 3, 0.5, 1.5, 5'000'000'000, 1e20, true, "x", "auto", "1f1b", "fp8", json::array(), json::array({1}),
      nullptr};
  for (const std::string& path : leaves) {
    if (path.ends_with("preset") || path == "stack.name")
      continue;  // any string by the schema, an existing name by the parser
    for (const json& probe : probes) {
      json plan = good;
      plan[pointer(path)] = probe;
      CAPTURE(path, probe.dump());
      const bool is_quantity = path.ends_with("bucket_bytes") || path.find("scale_") != std::string::npos ||
                               path.find("override.memory_") != std::string::npos || path.find("override.host_link_") != std::string::npos;
      if (is_quantity && probe.is_string()) continue;  // the schema knows that it is text, the parser reads the unit
      CHECK(valid(schema(), plan) == !refuses(plan, path));
    }
  }
}

TEST_CASE("every plan of the project obeys the schema, loads and can be lowered") {
  int seen = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(tests::source_dir() + "/experiments/plans")) {
    if (entry.path().extension() != ".json") continue;
    INFO(entry.path());
    CHECK(valid(schema(), read_json(entry.path().string())));
    CHECK_NOTHROW(require_lowerable(load_plan(entry.path().string())));
    ++seen;
  }
  CHECK(seen >= 28);
}

TEST_CASE("a completed plan obeys the schema") {
  CHECK(valid(schema(), json::parse(to_json(parse_plan(kGoodPlan, "good.json")))));
}

TEST_CASE("the schema names each field's default and meaning") {
  const json& parallel = schema()["properties"]["parallel"]["properties"];
  CHECK(parallel["tensor"]["default"] == 1);
  CHECK(parallel["bucket_bytes"]["default"] == 160'000'000);
  CHECK(schema()["properties"]["model"]["properties"]["ffn_hidden_size"]["description"].get<std::string>().find(
            "Default: 4 x hidden_size") != std::string::npos);
  std::vector<std::string> leaves;
  collect_leaves(schema(), "", leaves);
  for (std::string path : leaves) {
    std::string at = "/properties/" + std::regex_replace(path, std::regex("\\."), "/properties/");
    CAPTURE(path);
    CHECK(!schema()[json::json_pointer(at)]["description"].get<std::string>().empty());
  }
}

TEST_CASE("a perturbation is printed as it was written, obeys the schema and is read again") {
  const json perturbation = json::parse(R"({"slow_devices": [{"rank": 1, "factor": 0.8}, {"node": 0, "device": 3, "factor": 0.5}, {"node": 1, "factor": 0.5}],
    "slow_links": [{"link": "node 0: NIC 2 <-> leaf", "factor": 0.25}], "lost_links": ["leaf 0 to spine"],
    "jitter": {"relative": 0.02, "seed": 7, "seeds": 3}})");
  json plan = json::parse(kGoodPlan);
  plan["cluster"]["perturbation"] = perturbation;
  CHECK(valid(schema(), plan));
  const std::string completed = to_json(parse_plan(plan.dump(), "good.json"));
  CHECK(json::parse(completed)["cluster"]["perturbation"] == perturbation);
  CHECK(valid(schema(), json::parse(completed)));
  CHECK(to_json(parse_plan(completed, "again.json")) == completed);
  // One that changes nothing is none.
  plan["cluster"]["perturbation"] = json::parse(R"({"slow_devices": [], "jitter": {"relative": 0, "seed": 7}})");
  CHECK(!parse_plan(plan.dump(), "good.json").cluster.perturbation.any());
  CHECK(!json::parse(to_json(parse_plan(plan.dump(), "good.json")))["cluster"].contains("perturbation"));
}
