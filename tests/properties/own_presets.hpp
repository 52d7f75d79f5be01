#pragma once
// Copies of a cluster's preset files under other names, as a user writes them.

#include <functional>
#include <optional>
#include <string>

#include <nlohmann/json.hpp>

#include "tests/temporary_folder.hpp"

namespace tandem::tests {

/// Changes a device's preset.
using DeviceChange = std::function<void(nlohmann::json& device)>;

/// Copies a cluster, its node and its device, changed by `change`, into a temporary folder as "own-cluster", "own-node" and "own-device".
/// TANDEM_PRESETS names that folder until the object is destroyed. What it named before is found there too.
class OwnPresets {
 public:
  explicit OwnPresets(const std::string& cluster, const DeviceChange& change = nullptr);
  ~OwnPresets();
  OwnPresets(const OwnPresets&) = delete;
  OwnPresets& operator=(const OwnPresets&) = delete;

 private:
  TemporaryFolder folder_;
  std::optional<std::string> before_;  ///< what TANDEM_PRESETS was
};

}  // namespace tandem::tests
