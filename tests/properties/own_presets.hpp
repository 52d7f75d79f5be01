#pragma once
// Copies of a cluster's preset files under other names, as a user writes them.

#include <string>

#include "tests/temporary_folder.hpp"

namespace tandem::tests {

/// Copies a cluster, its node and its device into a temporary folder as "own-cluster", "own-node" and "own-device".
/// TANDEM_PRESETS names that folder until the object is destroyed.
class OwnPresets {
 public:
  explicit OwnPresets(const std::string& cluster);
  ~OwnPresets();
  OwnPresets(const OwnPresets&) = delete;
  OwnPresets& operator=(const OwnPresets&) = delete;

 private:
  TemporaryFolder folder_;
};

}  // namespace tandem::tests
