#pragma once
// Messages about memory that could not be allocated.

#include <array>
#include <cstddef>
#include <cstdio>
#include <string>

namespace tandem::exec {

/// "4.7 TiB", "512 bytes".
inline std::string size_text(std::size_t bytes) {
  constexpr std::array<const char*, 5> units{"KiB", "MiB", "GiB", "TiB", "PiB"};
  if (bytes < 1024) return std::to_string(bytes) + " bytes";
  double n = static_cast<double>(bytes) / 1024;
  std::size_t unit = 0;
  for (; n >= 1024 && unit + 1 < units.size(); ++unit) n /= 1024;
  std::array<char, 40> text{};
  std::snprintf(text.data(), text.size(), "%.1f %s", n, units[unit]);
  return text.data();
}

inline std::string no_host_memory(std::size_t wanted) { return "the host has no " + size_text(wanted) + " of memory left"; }
inline std::string no_device_memory(std::size_t wanted, std::size_t free, std::size_t all) {
  return "the device has no " + size_text(wanted) + " of memory left: " + size_text(free) + " of " + size_text(all) +
         " are free; tandem simulate says what the plan needs";
}

}  // namespace tandem::exec
