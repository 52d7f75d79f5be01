#pragma once
// Peak resident memory of this process, as its own program has it: what ran before `exec` is not counted.

#include <fstream>
#include <string>

namespace tandem::bench {

/// VmHWM of /proc/self/status; 0 where there is none.
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
