#pragma once
// Converts a framework's arguments to a plan, and lists what a plan cannot say.

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "models/arguments/table.hpp"
#include "models/huggingface/imported_model.hpp"
#include "models/plan/plan.hpp"

namespace tandem::arguments {

/// What a plan needs beside the arguments.
struct PlanNeeds {
  std::string cluster;        ///< a preset's name or path
  std::int64_t devices = 0;   ///< 0: as many as the arguments start
  std::string model = {};     ///< a preset's name or path; empty: what the framework's file names, if it names one
  std::int64_t sequence = 0;  ///< likewise: tokens of a sequence
  Month newest = {};          ///< of the table's stack: the month of the code that its rules were read from
  std::optional<StackChoice> stack = std::nullopt;  ///< replaces the table's
  std::string configuration = {};                   ///< path of the JSON file that an option names; empty: beside the arguments' file
  bool approximate = false;   ///< go on without such a file
  std::vector<std::pair<std::string, nlohmann::json>> set = {};  ///< fields of the file with values that take the place of its own
  std::int64_t layers = 0;    ///< of the model; 0: its file says them
};

struct ImportedPlan {
  std::string file;
  StackChoice stack;                                 ///< no month: the newest code
  Month as_of;                                       ///< the month whose rules were read
  std::vector<std::string> sources;
  bool printed = false;                              ///< a program printed the arguments, with its own defaults
  std::vector<huggingface::ImportedField> fields;    ///< in the order of the plan's fields
  std::vector<huggingface::MissingFeature> features;
  std::vector<std::string> ignored;                  ///< arguments that change no operation
  std::vector<std::string> unsaid;                   ///< arguments that no plan's field says, not at their default; features name those that are refused
  std::vector<std::string> automatic;                ///< fields that a file leaves to its program ("auto")
  std::vector<std::string> unknown;                  ///< arguments that the framework does not have, with the nearest option
  std::shared_ptr<const nlohmann::ordered_json> document;  ///< a plan file
};

/// Reads the arguments in `text`, which came from `file`. Throws ConfigError for a text without arguments, or one that lacks what
/// a plan needs; InfeasibleError for another program than the table's. Features that a plan cannot say are left to the caller.
ImportedPlan import_arguments(const std::string& text, const std::string& file, const Table& table, const PlanNeeds& needs);

/// One problem for each refused feature.
std::vector<Problem> refusals(const ImportedPlan& plan);

}  // namespace tandem::arguments
