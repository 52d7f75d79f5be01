#pragma once
// Small plans with fields that SmallPlan does not know.

#include <nlohmann/json.hpp>

#include "tests/plans.hpp"
#include "topology/plan_reader.hpp"

namespace tandem::tests {

/// `p` with the members of `patch` (JSON merge patch, RFC 7396) put in or replaced.
inline Plan patched_plan(const SmallPlan& p, const std::string& patch) {
  auto text = nlohmann::json::parse(p.json());
  text.merge_patch(nlohmann::json::parse(patch));
  return parse_plan(text.dump(), "test.json");
}

}  // namespace tandem::tests
