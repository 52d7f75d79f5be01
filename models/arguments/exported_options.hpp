#pragma once
// Converts a plan to a framework's options.

#include <string>
#include <utility>
#include <vector>

#include "models/arguments/table.hpp"
#include "models/plan/plan.hpp"

namespace tandem::arguments {

/// Options of a program and of its launcher, each with its value; empty for a switch. Or the fields of a file, JSON or TOML.
struct ExportedOptions {
  using Option = std::pair<std::string, std::string>;
  std::vector<Option> environment;  ///< variables that the program asserts
  std::vector<Option> launcher;  ///< "--nnodes", "8"
  std::vector<Option> options;   ///< of a file: dotted paths and values as JSON
  std::string program;           ///< empty for a file
  std::string text;              ///< the command, an option a line, each but the last with a backslash behind it; or the file
  std::string read_back;         ///< what says the plan again: `text`, or the file that a program in `text` would save
  std::vector<std::string> elsewhere;  ///< fields that such a file never says, "model.*"
};

/// Options that say `plan`. `devices_per_host`: that one launcher starts; `linked`: of one fast domain, which may join several hosts.
ExportedOptions export_plan(const Plan& plan, const Table& table, std::int64_t devices_per_host, std::int64_t linked);
inline ExportedOptions export_plan(const Plan& plan, const Table& table, std::int64_t devices_per_host) {
  return export_plan(plan, table, devices_per_host, devices_per_host);
}

/// Fields in which a plan read from `options` would differ from `plan`, as "field: ours, theirs": what the framework's options do
/// not say. Names and notes are left out. `context`: as for parsing.
std::vector<std::string> unsaid_fields(const Plan& plan, const ExportedOptions& options, const Table& table,
                                       const PlanContext& context);

}  // namespace tandem::arguments
