#pragma once
// Peak resident memory of this process since `exec`.

#include <fstream>
#include <string>

namespace tandem::bench {

/// VmHWM of /proc/self/status in MB; 0 if it is missing.
inline double peak_megabytes() {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;)
    if (word == "VmHWM:") {
      double kilobytes = 0;
      status >> kilobytes;
      return kilobytes / 1024;
    }
  return 0;
}

}  // namespace tandem::bench
