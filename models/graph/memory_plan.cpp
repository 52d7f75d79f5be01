#include "models/graph/memory_plan.hpp"

namespace tandem {

std::string_view name(MemoryKind k) {
  constexpr std::string_view names[kMemoryKinds] = {"weights",       "gradients", "optimizer", "activations",
                                                    "communication", "workspace", "runtime"};
  return names[static_cast<std::size_t>(k)];
}

}  // namespace tandem
