#include "experiments/tandem/explain/explanation.hpp"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "experiments/tandem/base/prepared_plan.hpp"
#include "experiments/tandem/explain/rows.hpp"
#include "models/fields/plan_fields.hpp"
#include "models/base/files.hpp"
#include "models/base/json.hpp"
#include "models/base/text.hpp"
#include "models/planfile/attention_kernels.hpp"
#include "models/planfile/plan_advice.hpp"
#include "reports/prediction/cost_table.hpp"
#include "reports/prediction/text.hpp"
#include "sim/cost/cost_model.hpp"
#include "sim/network/setup.hpp"
#include "sim/result/replaced_facts.hpp"
#include "sim/result/simulate.hpp"
#include "topology/power_limit.hpp"

namespace tandem::program {

namespace {

using nlohmann::json;

constexpr std::string_view kOfRole = "roles[].", kOfPlan = "plan.";

/// Objects, lists of objects and lists of texts of the result are keys, too, and hold others.
void collect_keys(const json& at, const std::string& key, std::vector<std::string>& out) {
  if (!key.empty()) out.push_back(key);
  if (at.is_array() && !at.empty() && (at.front().is_object() || (at.front().is_string() && !key.starts_with("plan."))))
    collect_keys(at.front(), key + "[]", out);
  if (!at.is_object()) return;
  for (const auto& [name, value] : at.items()) collect_keys(value, key.empty() ? name : key + "." + name, out);
}

/// A key as the table knows it, and what it asks for of a list.
struct Asked {
  std::string key;            ///< "roles[].arena_bytes", "notes[]"
  std::size_t index = 0;      ///< 0 where the key says none
  bool of_role = false;
};

/// Only the first list of a key is counted through: no list of objects holds another.
Asked parse(const std::string& key) {
  const std::size_t open = key.find('['), close = key.find(']', open);
  const bool of_role = key.starts_with("roles[");
  if (open == std::string::npos || close == std::string::npos || key.starts_with("plan.")) return {key, 0, of_role};
  const std::string digits = key.substr(open + 1, close - open - 1);
  const bool number = digits.size() < 9 && digits.find_first_not_of("0123456789") == std::string::npos;
  if (!number) return {key, 0, of_role};
  return {key.substr(0, open + 1) + key.substr(close), digits.empty() ? 0 : std::stoul(digits), of_role};
}

std::string dotted_path(std::string key) {
  for (char& c : key)
    if (c == '.') c = '/';
  return "/" + key;
}

/// Throws ConfigError where a list has no such entry.
json value_at(const json& result, const Asked& asked, const std::string& key) {
  std::string path = dotted_path(asked.key);
  const std::size_t list = path.find("[]");
  if (list == std::string::npos) return result.at(json::json_pointer(path));
  const std::size_t count = result.at(json::json_pointer(path.substr(0, list))).size();
  if (asked.index >= count)
    throw ConfigError(Problem{"", "KEY", key, "the prediction has none of this number",
                              asked.key.substr(0, asked.key.find("[]")) + " are 0 to " + std::to_string(count - 1)});
  return result.at(json::json_pointer(path.replace(list, 2, "/" + std::to_string(asked.index))));
}

/// The unit that a key's name says; empty where a value has none: shares, counts, texts.
std::string unit_of(const json& value, const std::string& key) {
  if (!value.is_number() || key.starts_with("plan.")) return "";
  if (key.ends_with("_bytes") || key.find("memory_bytes.") != std::string::npos) return "byte";
  if (key == "tokens_per_s") return "tokens/s";
  if (key == "samples_per_s") return "samples/s";
  if (key.find("tflops") != std::string::npos) return "TFLOP/s";
  return key.ends_with("_s") || key.find("time_breakdown_s.") != std::string::npos ? "s" : "";
}

std::string told(const json& value, const std::string& unit) {
  const std::string plain = value_text(value, 160);
  if (unit == "byte") return plain + " (" + bytes_text(value.get<std::int64_t>()) + ")";
  if (unit == "s") return plain + " (" + time_text(value.get<double>()) + ")";
  return plain;
}

std::vector<Row> all_rows() {
  std::vector<Row> out;
  for (const auto& part : {time_rows(), rate_rows(), memory_rows(), product_rows(), perturbation_rows(), other_rows()})
    out.insert(out.end(), part.begin(), part.end());
  return out;
}

const Row* find_row(const std::vector<Row>& rows, const std::string& key) {
  const auto named = [&](const std::string& name) {
    const auto at = std::find_if(rows.begin(), rows.end(), [&](const Row& r) { return r.key == name; });
    return at == rows.end() ? nullptr : &*at;
  };
  if (const Row* row = named(key)) return row;
  return key.starts_with(kOfRole) ? named(key.substr(kOfRole.size())) : nullptr;
}

/// The role that a value of the whole prediction is of.
std::size_t role_of(const ExplainedCase& c, const Row& row) {
  if (row.key == "needed_bytes") return neediest_role(c.prediction);
  if (row.key == "live_peak_bytes") return fullest_role(c.prediction);
  return row.range == RangeKind::layout ? c.prediction.heaviest_role : c.prediction.critical_role;
}

std::string scaled(double value, double low, double high, const StepRange& r) {
  return number_text(value * low, 6) + " to " + number_text(value * high, 6) + ", " + number_text(100 * r.share, 0) +
         " % of outcomes: " + r.basis;
}

std::string range_text(const ExplainedCase& c, const Row& row, const json& value) {
  const StepRange& r = c.prediction.range;
  const double step = c.prediction.step_time.seconds();
  switch (row.range) {
    case RangeKind::grows: return scaled(value.get<double>(), r.low_s / step, r.high_s / step, r);
    case RangeKind::shrinks: return scaled(value.get<double>(), step / r.high_s, step / r.low_s, r);
    case RangeKind::part: return "none: published runs state the step time, not its parts; see step_time_s";
    case RangeKind::layout:
      return "none: the layout is exact, and what a framework keeps beside it is not in it; `tandem validate` tells how far off";
    case RangeKind::exact: return "exact";
    case RangeKind::itself: return "none: it is the range of step_time_s";
  }
  throw ContractError("unknown kind of range");
}

/// How a power limit of the plan slows arithmetic down; empty without one.
std::string power_formula(const Device& device) {
  if (!device.power_limit) return "";
  return "; rates of arithmetic are multiplied by the clock that the power limit leaves: d^(1 / clock_exponent), d = (limit - idle_w) / (busy_w - "
         "idle_w), and in proportion to d below floor_clock; a product's measured time changes by the ratio of its roofline's";
}
std::string power_filled(const Device& device) {
  const auto curve = device.power_limit ? power_curve(device.preset) : std::nullopt;
  if (!curve) return "";
  return "; clock " + number_text(device.clock, 4) + " at (" + number_text(*device.power_limit, 1) + " - " + number_text(curve->idle_w, 1) + ") / (" +
         number_text(curve->rated_w, 1) + " - " + number_text(curve->idle_w, 1) + ") W";
}

/// A part that stands inside the cluster's file has its fields behind its own name: "device.peak_flops_per_s".
bool in_use(const FactOrigin& fact, const std::vector<std::string>& wanted) {
  const bool inside = fact.field.starts_with(fact.part + ".");
  const std::string field = fact.part + ":" + (inside ? fact.field.substr(fact.part.size() + 1) : fact.field);
  return std::any_of(wanted.begin(), wanted.end(),
                     [&](const std::string& w) { return w == fact.part || field.starts_with(w + ".") || field == w; });
}

std::vector<std::pair<std::string, std::string>> sources_of(const std::vector<FactOrigin>& facts) {
  std::map<std::string, std::string> texts;
  for (const FactOrigin& fact : facts)
    for (const std::string& id : fact.sources)
      if (!texts.contains(id)) texts[id] = source_text(id);
  return {texts.begin(), texts.end()};
}

/// Whether a key names a field of plans, also one that a completed plan prints only where it is set.
bool is_plan_field(std::string_view key) { return key.starts_with(kOfPlan) && find_field(key.substr(kOfPlan.size())) != nullptr; }

/// A key with the present name of a plan's field.
std::string present_key(const std::string& key) {
  return is_plan_field(key) ? std::string(kOfPlan) + find_field(key.substr(kOfPlan.size()))->path : key;
}

/// There are some eighty keys, so the reader gets the nearest one and the command that prints them all.
[[noreturn]] void refuse(const ExplainedCase& c, const std::string& key) {
  const std::string meant = nearest(key, explainable_keys(c));
  throw ConfigError(Problem{"", "KEY", key, "is no key of `simulate --json`",
                            (meant.empty() ? "" : "did you mean \"" + meant + "\"? ") +
                                std::string("`tandem simulate PLAN --json` prints the keys, such as step_time_s, memory_bytes.weights and "
                                            "roles[0].arena_bytes; keys of plan fields begin with \"plan.\"")});
}

/// Drops FlashAttention 2's fit if every kernel of the plan's attention has one of its own, and nothing else has its rate.
void drop_default_fit(std::vector<FactOrigin>& facts, const Plan& plan) {
  const AttentionKernels run = attention_kernels(plan);
  const auto is_of = [](const FactOrigin& fact, std::string_view kernel) {
    return fact.field.starts_with(std::string(kernel) + "_attention.");
  };
  const auto has_fit = [&](AttentionKernel k) {
    return std::ranges::any_of(facts, [&](const FactOrigin& fact) { return is_of(fact, name(k)); });
  };
  const bool like_attention = plan.model.indexer.heads > 0 || plan.model.recurrence.heads > 0;
  if (like_attention || !std::ranges::all_of(run.forward, has_fit) || !std::ranges::all_of(run.backward, has_fit)) return;
  std::erase_if(facts, [&](const FactOrigin& fact) { return is_of(fact, "flash"); });
}

/// Facts of the presets that some value of the prediction depends on, then what the plan and this machine put in place of others.
std::vector<FactOrigin> facts_in_use(const Plan& plan, const TaskGraph& graph, const Topology& topology) {
  std::vector<FactOrigin> out = facts_of(plan.cluster.preset);
  const Mesh mesh = make_mesh(plan);
  const auto cost = sim::make_cost_model(topology);
  const sim::ReplacedFacts replaced(sim::Setup{graph, mesh, topology, *cost});
  std::erase_if(out, [&](const FactOrigin& fact) { return is_unused_fact(fact.field, plan) || replaced.hold(fact.field); });
  drop_default_fit(out, plan);
  const json cluster = json::parse(to_json(plan, -1)).at("cluster");
  if (cluster.contains("override"))
    for (const auto& [key, value] : cluster.at("override").items())
      out.push_back({"node", plan.file, "cluster.override." + key, value_text(value), "given by the plan or its default"});
  if (topology.device().power_limit)
    for (FactOrigin& fact : power_facts_of(topology.device().preset)) out.push_back(std::move(fact));
  const std::string& table = topology.device().cost_table;
  if (table.empty()) return out;
  const std::string path = table.find('/') != std::string::npos ? table : measured_table_path(table);
  if (file_exists(path))
    out.push_back({"calibration", path, "measured table", "times of operations",
                   "measured by `tandem measure`; presets' facts give what it lacks"});
  return out;
}

FactOrigin origin_of(const ProductCoverage& c) {
  return {"measured", c.table, "products", count_text(c.shapes) + " shapes", "measured on " + c.card + (c.date.empty() ? "" : ", " + c.date) + ": " + c.source};
}

}  // namespace

ExplainedCase make_case(const std::string& plan_path, const std::string& stack, const sim::TellProgress& progress) {
  require_plan_file(plan_path);
  const std::string text = read_text(plan_path);
  PreparedPlan r = prepare_text(text, plan_path, stack);
  ExplainedCase c;
  c.origins = field_origins(text, r.plan, stack);
  c.text = text;
  c.topology = topology_of(r.plan, "");
  sim::SimulateOptions options;
  options.progress = progress;
  c.prediction = naming(plan_path, [&] { return sim::simulate(r.plan, r.graph, *c.topology, options); });
  c.result_json = to_json(c.prediction, r.plan);
  c.facts = facts_in_use(r.plan, r.graph, *c.topology);
  if (c.prediction.measured_products) c.facts.push_back(origin_of(*c.prediction.measured_products));
  c.plan = std::move(r.plan);
  c.graph = std::move(r.graph);
  return c;
}

std::vector<std::string> explainable_keys(const ExplainedCase& c) {
  std::vector<std::string> out;
  collect_keys(json::parse(c.result_json), "", out);
  return out;
}

Explanation explain_key(const ExplainedCase& c, const std::string& said) {
  const std::string key = present_key(said);
  const Asked asked = parse(key);
  const std::vector<std::string> keys = explainable_keys(c);
  const bool printed = std::find(keys.begin(), keys.end(), asked.key) != keys.end();
  if (!printed && !is_plan_field(key)) refuse(c, key);
  const json value = printed ? value_at(json::parse(c.result_json), asked, key) : json();
  Explanation out;
  if (key == "plan" || key.starts_with("plan.")) {
    out = explain_plan_field(c, key);
    if (key != said) out.filled = said.substr(kOfPlan.size()) + " is an older name of it; " + out.filled;
  } else {
    const std::vector<Row> rows = all_rows();
    const Row* row = find_row(rows, asked.key);
    require(row != nullptr, "a key of the prediction that no explanation was written for");
    out.formula = row->formula;
    out.filled = row->filled(c, asked.of_role || asked.key.find("[]") != std::string::npos ? asked.index : role_of(c, *row));
    if (std::ranges::find(row->facts, "power") != row->facts.end()) {
      out.formula += power_formula(c.topology->device());
      out.filled += power_filled(c.topology->device());
    }
    out.range = range_text(c, *row, value);
    if (key == "step_time_s") out.parts = step_parts(c.prediction);
    for (const FactOrigin& fact : c.facts)
      if (in_use(fact, row->facts)) out.facts.push_back(fact);
    out.sources = sources_of(out.facts);
  }
  out.key = key;
  out.value = value.dump(-1, ' ', false, json::error_handler_t::replace);
  out.unit = unit_of(value, asked.key);
  const std::string meant = key.starts_with(kOfPlan) ? meaning(key.substr(kOfPlan.size()), value) : "";
  out.text = printed ? told(value, out.unit) + (meant.empty() ? "" : " (" + meant + ")") : "not set";
  return out;
}

std::string to_text(const Explanation& e) {
  const auto line = [](const std::string& what, const std::string& text) { return "  " + padded(what, 10) + text + "\n"; };
  std::string out = e.key + " = " + e.text + "\n" + line("formula", e.formula) + line("here", e.filled) + to_text(e.parts) + line("range", e.range);
  for (const FactOrigin& f : e.facts)
    out += line("fact", f.file + ": " + f.field + " = " + f.value + "; " + f.origin);
  for (const auto& [id, text] : e.sources) out += line("source", text.empty() ? id : id + ": " + text);
  return out;
}

std::string to_json(const Explanation& e) {
  using nlohmann::ordered_json;
  ordered_json facts = ordered_json::array();
  for (const FactOrigin& f : e.facts)
    facts.push_back({{"part", f.part}, {"file", f.file}, {"field", f.field}, {"value", f.value}, {"origin", f.origin}});
  ordered_json parts = ordered_json::array();
  for (const StepPart& p : e.parts) parts.push_back({{"part", p.name}, {"seconds", p.seconds}});
  ordered_json sources = ordered_json::object();
  for (const auto& [id, text] : e.sources) sources[id] = text;
  const ordered_json out = {{"schema_version", 1}, {"key", e.key}, {"value", ordered_json::parse(e.value)}, {"unit", e.unit},
                            {"text", e.text}, {"formula", e.formula}, {"filled", e.filled}, {"parts", parts}, {"range", e.range}, {"facts", facts}, {"sources", sources}};
  return out.dump(2) + "\n";
}

}  // namespace tandem::program
