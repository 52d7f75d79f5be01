#include "models/plan/stack_facts.hpp"

namespace tandem {

std::int64_t HostOperations::of(std::string_view kind, std::int64_t parameters) const {
  const auto own = tasks.find(kind), more = per_parameter.find(kind);
  return (own == tasks.end() ? otherwise : own->second) + (more == per_parameter.end() ? 0 : more->second * parameters);
}

}  // namespace tandem
