#pragma once
// The outcome of a candidate. Each has exactly one.

#include <array>
#include <cstdint>
#include <string_view>

namespace tandem::search {

/// The first that applies, except for the last two. Where a group is one candidate, `stack` comes before the bounds.
enum class Outcome : std::uint8_t {
  devices,    ///< tensor x pipeline x context (x data) does not divide the devices
  layout,     ///< something else does not divide or fit together
  unlowered,  ///< not implemented in this version
  same,       ///< a varied field has no effect: the step equals another candidate's
  too_large,  ///< exceeds the device's memory
  bounded,    ///< its lower bound on time exceeds the limit
  stack,      ///< the framework refuses it
  left,       ///< not simulated: the allowed number was reached, or the search was interrupted
  estimated,  ///< in closed form
  simulated,  ///< by the event simulation
};
inline constexpr std::size_t kOutcomes = 10;
using Counts = std::array<std::int64_t, kOutcomes>;

std::string_view name(Outcome outcome);    ///< key in JSON
std::string_view meaning(Outcome outcome); ///< a line for people

inline std::int64_t& at(Counts& counts, Outcome outcome) { return counts[static_cast<std::size_t>(outcome)]; }
inline std::int64_t at(const Counts& counts, Outcome outcome) { return counts[static_cast<std::size_t>(outcome)]; }

}  // namespace tandem::search
