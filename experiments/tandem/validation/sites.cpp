#include "experiments/tandem/validation/sites.hpp"

#include <algorithm>
#include <set>

#include <nlohmann/json.hpp>

#include "models/base/json.hpp"
#include "models/base/presets.hpp"
#include "models/base/text.hpp"
#include "models/planfile/plan_fields.hpp"
#include "models/stack/stack_conditions.hpp"
#include "topology/preset.hpp"

namespace tandem::program {

namespace {

constexpr std::string_view kFolder = "topology";
constexpr std::string_view kFile = "sites.json";

bool ran_at(const Site& site, const std::string& source) {
  const auto has = [&](const std::string& text) { return source.find(text) != std::string::npos; };
  return has(site.of_source) && std::none_of(site.but.begin(), site.but.end(), has);
}

std::optional<double> bytes_of(const std::string& unit) {
  const std::map<std::string, double> known = {{"MB", 1e6}, {"MiB", 0x1p20}, {"GB", 1e9}, {"GiB", 0x1p30}};
  const auto at = known.find(unit);
  return at == known.end() ? std::nullopt : std::optional(at->second);
}

/// Throws on a key that says nothing here, which is as a rule one that was meant to be another.
void check_keys(const nlohmann::json& object, const std::set<std::string>& known, const std::string& field,
                const std::string& path) {
  if (!object.is_object()) return;  // for at() to refuse
  for (const auto& [key, value] : object.items())
    if (!known.contains(key))
      throw ConfigError(Problem{path, field + "." + key, value_text(value), "is no key that is known here",
                                "there are " + list_text(std::vector<std::string>(known.begin(), known.end()))});
}

MemoryUnit memory_of(const nlohmann::json& m, const std::string& site, const std::string& path) {
  const std::string read_as = m.at("read_as");
  const std::string note = m.value("note", "read as " + read_as);
  if (note.empty())
    throw ConfigError(
        Problem{path, "sites." + site + ".memory.note", "\"\"", "would be in every note", "give words of the notes it is about"});
  return {m.at("unit"), read_as, note};
}

Site site_of(const nlohmann::json& entry, const std::string& path) {
  Site out{entry.at("name"), entry.at("of_source"), {}, {}, {}, {}, {}};
  check_keys(entry, {"name", "of_source", "but", "clusters", "memory", "memory_rank", "fields", "why", "source"},
             "sites." + out.name, path);
  if (entry.contains("memory")) check_keys(entry["memory"], {"unit", "read_as", "note"}, "sites." + out.name + ".memory", path);
  if (entry.contains("clusters")) entry["clusters"].get_to(out.clusters);
  if (entry.contains("but")) entry["but"].get_to(out.but);
  for (const nlohmann::json& f : entry.value("fields", nlohmann::json::array())) {
    check_keys(f, {"field", "named", "ran", "when"}, "sites." + out.name + ".fields", path);
    out.fields.push_back({f.at("field"), f.contains("named") ? f["named"].dump() : "", f.at("ran").dump()});
    if (!f.contains("when")) continue;
    if (const std::string wrong = condition_defect(f["when"]); !wrong.empty())
      throw ConfigError(Problem{path, "sites." + out.name + ".fields." + out.fields.back().field + ".when", value_text(f["when"]), wrong,
                                "write for example {\"model.family\": {\"allowed\": [\"llama\"]}}, or leave it out"});
    out.fields.back().when = f["when"].dump();
  }
  out.memory_rank = entry.value("memory_rank", "");
  if (entry.contains("memory")) out.memory = memory_of(entry["memory"], out.name, path);
  return out;
}

void check_fields(const Site& site, const std::string& path) {
  for (const ChangedField& f : site.fields) {
    const PlanField* field = find_field(f.field);
    Plan scratch;
    const auto refused = field == nullptr ? std::nullopt : field->read(nlohmann::json::parse(f.ran), scratch);
    if (field == nullptr || refused)
      throw ConfigError(Problem{path, "sites." + site.name + ".fields." + f.field, f.ran,
                                field == nullptr ? "is no field of a plan" : refused->reason, "see tandem schema"});
  }
}

void check(const Site& site, const std::string& path) {
  if (std::find(site.but.begin(), site.but.end(), "") != site.but.end())
    throw ConfigError(Problem{path, "sites." + site.name + ".but", "", "has an empty text: no record would have run there",
                              "leave it out"});
  check_fields(site, path);
  if (site.of_source.empty())
    throw ConfigError(Problem{path, "sites." + site.name + ".of_source", "", "is empty: every record would have run there",
                              "give a text that the source of its records has"});
  if (site.clusters.empty() && !site.memory && site.memory_rank.empty() && site.fields.empty())
    throw ConfigError(Problem{path, "sites." + site.name, "", "says nothing of its records",
                              "give clusters, memory, memory_rank or fields, or leave it out"});
  if (!site.memory_rank.empty() && site.memory_rank != "first_node" && site.memory_rank != "last_stage")
    throw ConfigError(Problem{path, "sites." + site.name + ".memory_rank", site.memory_rank, "is nobody whose memory is read",
                              "give first_node or last_stage, or leave it out for the heaviest rank"});
  for (const auto& [named, there] : site.clusters) load_cluster(named), load_cluster(there);
  if (!site.memory) return;
  for (const std::string& unit : {site.memory->unit, site.memory->read_as})
    if (!bytes_of(unit))
      throw ConfigError(Problem{path, "sites." + site.name + ".memory", unit, "is no unit of memory", "give MB, MiB, GB or GiB"});
}

nlohmann::json::json_pointer place_of(const ChangedField& f) {
  std::string path = "/" + f.field;
  std::replace(path.begin(), path.end(), '.', '/');
  return nlohmann::json::json_pointer(path);
}

bool has_as_named(const nlohmann::json& plan, const ChangedField& f) {
  const nlohmann::json::json_pointer at = place_of(f);
  if (!f.named.empty()) return plan.contains(at) && plan[at] == nlohmann::json::parse(f.named);
  return plan.is_object() && !plan.contains(at) && plan.value(at.parent_pointer(), nlohmann::json::object()).is_object();
}

/// Whether the completed plan meets the conditions. One that is refused meets none, and is refused again where it is judged.
bool is_meant(const nlohmann::json& plan, const ChangedField& f) {
  if (f.when.empty()) return true;
  try {
    return stack_entry_applies({{"when", nlohmann::json::parse(f.when)}}, parse_plan(plan.dump(), ""));
  } catch (const ConfigError&) {
    return false;
  }
}

}  // namespace

std::vector<Site> load_sites() {
  const std::string path = find_data_file(kFolder, kFile);
  if (path.empty())
    throw ConfigError(Problem{"topology/sites.json", "", "", "is in none of the places that data files are looked for in",
                              "install Tandem's data, or use --as-named"});
  std::vector<Site> out;
  try {
    const nlohmann::json file = read_json(path);
    for (const nlohmann::json& entry : file.at("sites")) out.push_back(site_of(entry, path));
  } catch (const nlohmann::json::exception& e) {
    throw ConfigError(Problem{path, "", "", std::string("is no list of sites: ") + e.what(),
                              "give sites with name, of_source, and clusters, memory, memory_rank or fields"});
  }
  for (const Site& site : out) check(site, path);
  return out;
}

std::string site_cluster(const std::vector<Site>& sites, const std::string& source, const std::string& preset) {
  for (const Site& site : sites)
    if (const auto there = site.clusters.find(preset); ran_at(site, source) && there != site.clusters.end()) return there->second;
  return "";
}

std::string change_fields(const std::vector<Site>& sites, const std::string& source, std::string& plan_json) {
  nlohmann::json plan = nlohmann::json::parse(plan_json);
  std::string changed;
  for (const Site& site : sites)
    for (const ChangedField& f : site.fields) {
      if (!ran_at(site, source) || !has_as_named(plan, f) || !is_meant(plan, f)) continue;
      const nlohmann::json::json_pointer at = place_of(f);
      plan[at] = nlohmann::json::parse(f.ran);
      changed += (changed.empty() ? "" : ", ") + f.field + " " + f.ran;
    }
  if (!changed.empty()) plan_json = plan.dump();
  return changed;
}

double MemoryUnit::factor() const { return bytes_of(unit).value() / bytes_of(read_as).value(); }

std::optional<MemoryUnit> site_memory_unit(const std::vector<Site>& sites, const std::string& source, const std::string& note) {
  for (const Site& site : sites)
    if (site.memory && ran_at(site, source) && note.find(site.memory->note) != note.npos) return site.memory;
  return std::nullopt;
}

std::string site_memory_rank(const std::vector<Site>& sites, const std::string& source) {
  for (const Site& site : sites)
    if (!site.memory_rank.empty() && ran_at(site, source)) return site.memory_rank;
  return "";
}

}  // namespace tandem::program
