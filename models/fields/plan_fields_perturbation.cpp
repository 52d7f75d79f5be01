// cluster.perturbation: slow and lost parts of the cluster, and the jitter of times.

#include <algorithm>
#include <nlohmann/json.hpp>

#include "models/base/text.hpp"
#include "models/fields/plan_field_makers.hpp"

#define AT(member) ([](auto& p) -> auto& { return p.member; })

namespace tandem {
namespace {

using nlohmann::json;

/// Remaining share of a speed, at most 1: who writes 1.25 probably means 0.8. Below 0.0001 the part has failed.
constexpr NumberRange kFactor{1e-4, 1, false, false};
constexpr IntRange kPlace{0, kMaxDevices - 1};
constexpr const char* kExample = R"(write for example {"rank": 5, "factor": 0.8})";

/// One key of an entry of a list.
struct Member {
  std::string key;
  std::function<std::optional<Refusal>(const json&)> read;
};

/// Reads an entry's members; every one is named in `members`.
std::optional<Refusal> read_entry(const json& entry, const std::string& example, const std::vector<Member>& members) {
  if (!entry.is_object()) return Refusal{value_text(entry) + " is not an object", example};
  std::vector<std::string> keys;
  for (const Member& m : members) keys.push_back(m.key);
  for (const auto& [key, value] : entry.items()) {
    const auto at = std::find(keys.begin(), keys.end(), key);
    if (at == keys.end()) return Refusal{"has an entry with the unknown key \"" + key + "\"", "the keys of an entry are " + list_text(keys)};
    if (const auto refused = members[static_cast<std::size_t>(at - keys.begin())].read(value))
      return Refusal{key + " " + value_text(value) + " of an entry " + refused->reason, refused->remedy};
  }
  return {};
}

template <class Entry, class Read>
std::optional<Refusal> read_entries(const json& list, std::vector<Entry>& out, const std::string& example, Read read) {
  if (!list.is_array()) return Refusal{"must be a list, not " + kind_text(list), "write [...]: " + example};
  out.clear();
  for (const json& value : list) {
    Entry entry{};
    if (auto refused = read(value, entry)) return refused;
    out.push_back(std::move(entry));
  }
  return {};
}

std::optional<Refusal> read_slow_device(const json& value, SlowDevice& out) {
  if (auto refused = read_entry(value, kExample,
                                {{"rank", [&](const json& v) { return read_value(v, kPlace, out.rank); }},
                                 {"node", [&](const json& v) { return read_value(v, kPlace, out.node); }},
                                 {"device", [&](const json& v) { return read_value(v, kPlace, out.device); }},
                                 {"factor", [&](const json& v) { return read_value(v, kFactor, out.factor); }}}))
    return refused;
  if (!value.contains("factor")) return Refusal{"has an entry without a factor", "give the share of its speed that is left, e.g. 0.8"};
  const bool by_rank = out.rank >= 0, by_node = out.node >= 0, by_place = out.device >= 0;
  if (by_rank == by_node || (by_place && !by_node))
    return Refusal{"has an entry that does not say which device", R"(give "rank", or "node" and the "device" in it, or "node" for all of its devices)"};
  return {};
}

std::optional<Refusal> read_slow_link(const json& value, SlowLink& out) {
  const std::string example = R"(write for example {"link": "node 0: NIC 2 <-> leaf", "factor": 0.5})";
  if (auto refused = read_entry(value, example,
                                {{"link", [&](const json& v) { return read_value(v, out.link); }},
                                 {"factor", [&](const json& v) { return read_value(v, kFactor, out.factor); }}}))
    return refused;
  if (!value.contains("link") || !value.contains("factor")) return Refusal{"has an entry without link or factor", example};
  return {};
}

json written(const SlowDevice& d) {
  if (d.rank >= 0) return {{"rank", d.rank}, {"factor", d.factor}};
  json out = {{"node", d.node}, {"factor", d.factor}};
  if (d.device >= 0) out["device"] = d.device;
  return out;
}
json written(const SlowLink& l) { return {{"link", l.link}, {"factor", l.factor}}; }
json written(const std::string& link) { return link; }

json schema_of_list(json entry) { return {{"type", "array"}, {"items", std::move(entry)}}; }

json schema_of_entry(json properties, json required) {
  return {{"type", "object"}, {"additionalProperties", false}, {"properties", std::move(properties)}, {"required", std::move(required)}};
}

json schema_of_slow_devices() {
  return schema_of_list(schema_of_entry(
      {{"rank", schema_of(kPlace)}, {"node", schema_of(kPlace)}, {"device", schema_of(kPlace)}, {"factor", schema_of(kFactor)}}, {"factor"}));
}

json schema_of_slow_links() {
  return schema_of_list(schema_of_entry({{"link", schema_of_type("string")}, {"factor", schema_of(kFactor)}}, json::array({"link", "factor"})));
}

json schema_of_lost_links() { return schema_of_list(schema_of_type("string")); }

/// A list that is left out of the output when empty. `read` reads one entry.
template <class Entry, class Get, class Read>
PlanField list(Place place, Get get, const std::string& example, Read read, std::function<json()> schema) {
  PlanField f{std::move(place.path), std::move(place.description), "none", false, {}, {}, std::move(schema)};
  f.read = [get, read, example](const json& v, Plan& p) { return read_entries<Entry>(v, get(p), example, read); };
  f.write = [get](const Plan& p) {
    json out;
    for (const Entry& entry : get(p)) out.push_back(written(entry));
    return out;
  };
  return f;
}

/// A field of the jitter is printed only where there is any.
PlanField of_jitter(PlanField f) {
  f.write = [write = f.write](const Plan& p) { return p.cluster.perturbation.jitter.relative > 0 ? write(p) : json(); };
  return f;
}

}  // namespace

std::vector<PlanField> perturbation_fields() {
  const auto read_name = [](const json& v, std::string& out) { return read_value(v, out); };
  const std::string at = "cluster.perturbation.", link = R"("node 0: NIC 2 <-> leaf")";
  return {
      list<SlowDevice>({at + "slow_devices", "Devices whose computations take 1 / factor of their time: by rank, by node and place in it, or all of a node."},
                       AT(cluster.perturbation.slow_devices), kExample, read_slow_device, schema_of_slow_devices),
      list<SlowLink>({at + "slow_links", "Links with a factor of their bandwidth: \"A to B\" one way, \"A <-> B\" both, * stands for a numeral."},
                     AT(cluster.perturbation.slow_links), R"({"link": )" + link + R"(, "factor": 0.5})", read_slow_link, schema_of_slow_links),
      list<std::string>({at + "lost_links", "Links that carry nothing: traffic goes another way where the library would."},
                        AT(cluster.perturbation.lost_links), link, read_name, schema_of_lost_links),
      of_jitter(number({at + "jitter.relative", "Standard deviation of a log-normal factor of mean 1 on every computation of every rank."},
                       AT(cluster.perturbation.jitter.relative), {0, 1}))
          .otherwise("0"),
      of_jitter(integer({at + "jitter.seed", "Seed of the factors."}, AT(cluster.perturbation.jitter.seed), {0, kMaxCount}))
          .otherwise("1"),
      of_jitter(integer({at + "jitter.seeds", "Number of seeds, from `seed` on, over which mean and spread of the step time are given."},
                        AT(cluster.perturbation.jitter.seeds), {1, 1000}))
          .otherwise("1"),
  };
}

}  // namespace tandem
