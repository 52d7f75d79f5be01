#pragma once
// Writes a plan as another framework's command or configuration, for `export`.

#include <string>

#include "experiments/tandem/base/exit_code.hpp"

namespace tandem::program {

struct PlanExport {
  std::string plan, to;        ///< plan file; framework, a table of models/arguments
  std::string out, stack;      ///< file that is written; --stack; each may be empty
  bool approximate = false;    ///< fields that no option says are left out and told
  bool json = false;
};

/// Throws ConfigError for a plan that cannot be read, InfeasibleError for fields that no option says.
ExitCode export_plan(const PlanExport& o);

}  // namespace tandem::program
