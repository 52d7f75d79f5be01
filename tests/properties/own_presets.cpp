#include "tests/properties/own_presets.hpp"

#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "models/base/json.hpp"
#include "models/base/presets.hpp"

namespace tandem::tests {
namespace {

using nlohmann::json;

const std::string kClusters = "topology/presets";

json preset(const std::string& folder, const std::string& name) { return read_json(find_preset(folder, name)); }

}  // namespace

OwnPresets::OwnPresets(const std::string& cluster, const DeviceChange& change) {
  json own = preset(kClusters, cluster);
  std::filesystem::create_directories(folder_.path() / kClusters);
  for (const std::string part : {"node", "device"}) {
    const bool changed = change && part == "device";
    if (!own[part].is_string()) {  // it stands in the cluster's file
      if (changed) change(own[part]);
      continue;
    }
    json copy = preset(kClusters + "/" + part + "s", own[part]);
    copy["name"] = "our " + part;
    if (changed) change(copy);
    own[part] = "own-" + part;
    std::filesystem::create_directories(folder_.path() / kClusters / (part + "s"));
    folder_.file(kClusters + "/" + part + "s/own-" + part + ".json", copy.dump());
  }
  own["name"] = "our cluster";
  folder_.file(kClusters + "/own-cluster.json", own.dump());
  setenv("TANDEM_PRESETS", folder_.path().c_str(), 1);
}

OwnPresets::~OwnPresets() { unsetenv("TANDEM_PRESETS"); }

}  // namespace tandem::tests
