#pragma once
// What a plan is called above its tables and pages.

#include <filesystem>
#include <string>

#include "models/plan/plan.hpp"

namespace tandem {

/// Its own name, its model's, or that of its file.
inline std::string title(const Plan& plan) {
  if (!plan.name.empty()) return plan.name;
  return !plan.model.name.empty() ? plan.model.name : std::filesystem::path(plan.file).stem().string();
}

}  // namespace tandem
