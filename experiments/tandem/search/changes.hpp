#pragma once
// If nothing fits: changes of the question with which something fits, each with the fastest step.

#include <string>
#include <utility>
#include <vector>

#include "experiments/tandem/search/search.hpp"

namespace tandem::search {

/// A simulated step and its layout.
struct Placed {
  std::string at;                  ///< all fields that the question does not say alike: "tensor 8, pipeline 4, ..."
  std::string cluster, stack;
  std::int64_t devices = 0;
  std::int64_t room = 0;           ///< memory limit of a rank, in bytes
  Simulated step;
  std::string wider;               ///< Judge::why_wider()
  std::string host_remedy;         ///< what shortens the step, if the host limits it
  std::vector<std::string> notes;  ///< notes_of()
  std::vector<std::string> switched_on;  ///< Space::switched_on()

  /// Device seconds per step.
  double device_s() const { return static_cast<double>(step.time_ps) * 1e-12 * static_cast<double>(devices); }
};

/// The value of a field that a change leaves out.
inline constexpr const char* kLeftOut = "null";

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

/// Tries values of one field that the question lacks: degrees, micro-batch, sequence parallelism, recomputation, sharding, flash
/// attention, offloading (with few, memory-saving values of other fields). If no single one helps, tries two fields. Also finds how
/// often the devices must be doubled, and the three smallest other devices with more memory that suffice. These have the memory that
/// they are built with, whatever the plan's `cluster.override` says of its own. For these it tries without ZeRO 2 and 3 first, if the question has ZeRO 0 or 1. `space` must be `request`'s, and nothing in it may fit. Throws program::Interrupted.
Changes find_changes(const Request& request, const Space& space, const SearchOptions& options);

}  // namespace tandem::search
