#pragma once
// Random legal plans of every stack on every cluster preset. About half of the optional fields are left out, so that defaults apply.

#include <optional>
#include <random>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "models/plan/plan.hpp"
#include "tests/sim/engine/random_plans.hpp"

namespace tandem::tests {

/// Vocabularies of published models.
inline constexpr std::int64_t kVocabularies[]{32'000, 32'128, 50'257, 50'304, 51'200, 100'352, 128'256, 131'072, 151'936, 250'880};

struct StackPlan {
  nlohmann::json document;  ///< the plan file, without defaults
  Plan plan;                ///< with defaults
  double step_time_s = 0;
};

/// Parses a plan file. Throws ConfigError if it is refused.
Plan parsed(const nlohmann::json& document);
/// Whether the plan is feasible and its stack accepts it.
bool legal(const nlohmann::json& document);
/// Simulates one step and returns its seconds. Throws ConfigError if the plan is refused.
double step_time_s(const nlohmann::json& document);

class StackPlans {
 public:
  explicit StackPlans(std::uint32_t seed);

  /// Returns a legal plan of the next stack and the next cluster, both in turn. Skips clusters for which it finds no legal plan.
  StackPlan next();

 private:
  std::optional<StackPlan> draw(const std::string& stack, const std::string& cluster);
  nlohmann::json document(const std::string& stack, const std::string& cluster);
  void replicate(nlohmann::json& plan);
  void leave_out(nlohmann::json& part);

  template <class List>
  auto pick(const List& of) {
    return of[random_() % std::size(of)];
  }
  bool one_in(std::uint32_t n) { return random_() % n == 0; }

  sim::test::PlanGenerator drawn_;
  std::mt19937 random_;
  std::vector<std::string> stacks_, clusters_;
  std::size_t stack_ = 0, cluster_ = 0;
};

}  // namespace tandem::tests
