#pragma once
// If nothing fits: changes of the question with which something fits, each with the fastest step.

#include <string>
#include <utility>
#include <vector>

#include "experiments/tandem/search/search.hpp"

namespace tandem::search {

/// A simulated step and its layout.
struct Placed {
  std::string at;                  ///< the varied fields: "tensor 8, pipeline 4, ..."
  std::string cluster;
  std::int64_t devices = 0;
  std::int64_t room = 0;           ///< memory limit of a rank, in bytes
  Simulated step;

  /// Device seconds per step.
  double device_s() const { return static_cast<double>(step.time_ps) * 1e-12 * static_cast<double>(devices); }
};

struct Change {
  std::vector<std::pair<std::string, std::string>> fields;  ///< plan fields and the values with which something fits
  Placed best;                     ///< the fastest that then fits, simulated
};

struct Changes {
  bool asked = false;              ///< nothing fits, so changes were searched
  bool possible = false;           ///< some layout could run without the memory limit
  Placed unlimited;                ///< the fastest of these, which does not fit; if `possible`
  std::vector<Change> found;       ///< fewest device seconds first
};

/// Changes of one field to a value that the question does not have: degrees, micro-batch, sequence parallelism, recomputation, sharding,
/// offloading (with the question's values that need least memory); else of two. Beside these the least power of two of the devices that is enough, and the three least devices with more
/// memory that are; without ZeRO 2 and 3 where the question has 0 or 1 and that is enough. `space` is of `request`, and nothing of it fits. Throws program::Interrupted.
Changes find_changes(const Request& request, const Space& space, const SearchOptions& options);

}  // namespace tandem::search
