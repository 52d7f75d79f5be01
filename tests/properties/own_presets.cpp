#include "tests/properties/own_presets.hpp"

#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "models/base/json.hpp"
#include "models/base/presets.hpp"

namespace tandem::tests {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

const std::string kClusters = "topology/presets";

json preset(const std::string& folder, const std::string& name) { return read_json(find_preset(folder, name)); }

/// Links `to` to the data files of `from`, the folder that TANDEM_PRESETS named: only one folder can be named at a time.
void link_data(const fs::path& from, const fs::path& to) {
  for (const char* root : {"models", "topology"}) {
    if (!fs::is_directory(from / root)) continue;
    for (const fs::directory_entry& file : fs::recursive_directory_iterator(from / root)) {
      if (file.path().extension() != ".json") continue;
      const fs::path link = to / file.path().lexically_relative(from);
      fs::create_directories(link.parent_path());
      if (!fs::exists(link)) fs::create_symlink(file.path(), link);
    }
  }
}

}  // namespace

OwnPresets::OwnPresets(const std::string& cluster, const DeviceChange& change) {
  json own = preset(kClusters, cluster);
  fs::create_directories(folder_.path() / kClusters);
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
    fs::create_directories(folder_.path() / kClusters / (part + "s"));
    folder_.file(kClusters + "/" + part + "s/own-" + part + ".json", copy.dump());
  }
  own["name"] = "our cluster";
  folder_.file(kClusters + "/own-cluster.json", own.dump());
  if (const char* before = std::getenv("TANDEM_PRESETS")) {
    before_ = before;
    link_data(fs::absolute(*before_), folder_.path());
  }
  setenv("TANDEM_PRESETS", folder_.path().c_str(), 1);
}

OwnPresets::~OwnPresets() {
  if (before_) setenv("TANDEM_PRESETS", before_->c_str(), 1);
  else unsetenv("TANDEM_PRESETS");
}

}  // namespace tandem::tests
