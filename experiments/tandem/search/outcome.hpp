#pragma once
// What becomes of a candidate: exactly one of these.

#include <array>
#include <cstdint>
#include <string_view>

namespace tandem::search {

/// The first that applies, but for the last two.
enum class Outcome : std::uint8_t {
  devices,    ///< tensor x pipeline x context (x data) does not go into the devices
  layout,     ///< something else does not divide or fit together
  unlowered,  ///< this version cannot do it
  same,       ///< a field that varies changes nothing: the same step as another candidate
  too_large,  ///< does not fit the device's memory
  bounded,    ///< its lower bound on time is above the last time that counts
  stack,      ///< the framework cannot run it
  left,       ///< would have been simulated, but so many simulations were not allowed
  estimated,  ///< by the closed form
  simulated,  ///< by events
};
inline constexpr std::size_t kFates = 10;
using Counts = std::array<std::int64_t, kFates>;

std::string_view name(Outcome outcome);    ///< key in JSON
std::string_view meaning(Outcome outcome); ///< a line for people

inline std::int64_t& at(Counts& counts, Outcome outcome) { return counts[static_cast<std::size_t>(outcome)]; }
inline std::int64_t at(const Counts& counts, Outcome outcome) { return counts[static_cast<std::size_t>(outcome)]; }

}  // namespace tandem::search
