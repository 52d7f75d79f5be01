#pragma once
// Live bytes at one moment.

#include "models/base/units.hpp"
#include "models/graph/memory_plan.hpp"

namespace tandem {

struct MemorySample {
  Duration at;
  BytesByKind live{};
};

}  // namespace tandem
