#pragma once
// Lists every number of a cluster's presets with its origin.

#include <string>
#include <vector>

namespace tandem {

/// A fact, a fitted number, or a bare number of a preset file, with its origin.
struct FactOrigin {
  std::string part;    ///< cluster, node, device or calibration
  std::string file;    ///< told_file(): "presets/devices/h100.json"
  std::string field;   ///< dotted, e.g. "scale_out.nic_bytes_per_s"
  std::string value;   ///< as written
  std::string origin;  ///< "verified: id, id", "not verified: id", "fitted on ..." or "no source given"
  std::vector<std::string> sources = {};  ///< ids of texts, see source_text
};

/// Numbers of a cluster preset (a name or a path), its node, its device and the device's calibration, in the order of the
/// files. Throws ConfigError when one of them cannot be read.
std::vector<FactOrigin> facts_of(const std::string& cluster_preset);

/// The numbers behind a power limit of a device preset, in the part "power": its watts, and the law of the clock
/// (topology/budget/power.json). Empty if its watts are not known.
std::vector<FactOrigin> power_facts_of(const std::string& device_preset);

/// The text of a source by its id (topology/sources.json); empty if there is none.
std::string source_text(const std::string& id);

}  // namespace tandem
