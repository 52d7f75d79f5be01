#pragma once
// What a run was doing when it failed.

#include <cstdint>
#include <string_view>

namespace tandem::exec {

enum class Activity : std::int32_t {
  start,       ///< before the first step: memory, connections
  training,    ///< a step
  evaluation,
  saving,      ///< writing the state after a step
};
/// As reports spell it: "start", "training" ...
std::string_view name(Activity activity);

}  // namespace tandem::exec
