#include "experiments/validation/sites.hpp"

#include <nlohmann/json.hpp>

#include "models/base/json.hpp"
#include "models/base/presets.hpp"
#include "topology/preset.hpp"

namespace tandem::program {

namespace {

constexpr std::string_view kFolder = "topology";
constexpr std::string_view kFile = "sites.json";

bool ran_at(const Site& site, const std::string& source) { return source.find(site.of_source) != std::string::npos; }

Site site_of(const nlohmann::json& entry) {
  return {entry.at("name"), entry.at("of_source"), entry.at("clusters").get<std::map<std::string, std::string>>()};
}

void check(const Site& site, const std::string& path) {
  if (site.of_source.empty())
    throw ConfigError(Problem{path, "sites." + site.name + ".of_source", "", "is empty: every record would have run there",
                              "give a text that the source of its records has"});
  for (const auto& [named, there] : site.clusters) load_cluster(named), load_cluster(there);
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
    for (const nlohmann::json& entry : file.at("sites")) out.push_back(site_of(entry));
  } catch (const nlohmann::json::exception& e) {
    throw ConfigError(Problem{path, "", "", std::string("is no list of sites: ") + e.what(),
                              "give sites with name, of_source and clusters"});
  }
  for (const Site& site : out) check(site, path);
  return out;
}

std::string site_cluster(const std::vector<Site>& sites, const std::string& source, const std::string& preset) {
  for (const Site& site : sites)
    if (const auto there = site.clusters.find(preset); ran_at(site, source) && there != site.clusters.end()) return there->second;
  return "";
}

}  // namespace tandem::program
