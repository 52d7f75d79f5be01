#pragma once
// If nothing fits: changes of the question with which something fits, each with the fastest step.

#include <optional>
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
  std::string host_remedy;         ///< what shortens the step, if the host limits it
  std::vector<std::string> notes;  ///< notes_of()
  std::vector<std::string> switched_on;  ///< Space::switched_on()
  std::vector<std::string> switched_words;  ///< the same, for people

  /// Device seconds per step.
  double device_s() const { return static_cast<double>(step.time_ps) * 1e-12 * static_cast<double>(devices); }
};

/// The value of a field that a change leaves out.
inline constexpr const char* kLeftOut = "null";

struct Change {
  std::vector<std::pair<std::string, std::string>> fields;  ///< plan fields and the values with which something fits
  Placed best;                     ///< the fastest that then fits, simulated
  bool ended = true;               ///< false: time was short, so a faster one may exist
};

struct Changes {
  bool asked = false;              ///< nothing fits, so changes were searched
  bool possible = false;           ///< some layout could run without the memory limit
  std::optional<Placed> unlimited; ///< the fastest of these, which does not fit; if `possible` and time sufficed
  std::vector<Change> found;       ///< fewest device seconds first
  std::vector<std::string> vain;   ///< what was tried and makes nothing fit: "recompute", "32 devices"
  std::vector<std::string> unended;  ///< what time did not suffice for
  double seconds = 0;              ///< the limit of time
};

/// Tries values of one field that the question lacks: degrees, micro-batch, sequence parallelism, recomputation, sharding, flash
/// attention, offloading (with few, memory-saving values of other fields). Also finds how often the devices must be doubled, and the
/// three smallest other devices with more memory that suffice. These have the memory that they are built with, whatever the plan's
/// `cluster.override` says of its own. For devices it tries without ZeRO 2 and 3 first, if the question has ZeRO 0 or 1. If no single
/// field helps, tries two. Ends after about `seconds`, of which each trial that is left has an equal share. `space` must be
/// `request`'s, and nothing in it may fit. Throws program::Interrupted.
Changes find_changes(const Request& request, const Space& space, const SearchOptions& options, double seconds);

}  // namespace tandem::search
