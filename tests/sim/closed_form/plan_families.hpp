#pragma once
// Random plans that somebody could ask for, of four families, on up to 64 devices.

#include <random>
#include <string>

#include "models/plan/plan.hpp"

namespace tandem::sim::test {

enum class PlanFamily { dense, fsdp, experts, context };
std::string name(PlanFamily f);

class FamilyPlans {
 public:
  FamilyPlans(PlanFamily family, std::uint32_t seed) : family_(family), random_(seed) {}

  /// The next legal plan; what the parser or the lowering refuses is thrown away.
  Plan next();

 private:
  std::string text();

  template <class T>
  T pick(std::initializer_list<T> of) {
    return of.begin()[random_() % of.size()];
  }

  PlanFamily family_;
  std::mt19937 random_;
};

}  // namespace tandem::sim::test
