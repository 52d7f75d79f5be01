#pragma once
// The question of a search: a model or plan, a cluster, and the fields that vary.

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "experiments/tandem/search/axes/axis.hpp"
#include "models/planfile/plan_draft.hpp"
#include "models/stack/stack_switches.hpp"

namespace tandem::search {

/// The question as given on the command line.
struct Request {
  std::string subject;               ///< a model preset, plan file, model preset file, or Hugging Face config.json
  std::string cluster;               ///< preset or path; empty: the plan's
  std::int64_t devices = 0;          ///< 0: the plan's
  bool built_device = false;         ///< leave out the plan's `cluster.override` of a device's memory and power: they are of another device
  std::string stack;                 ///< "NAME" or "NAME@YYYY-MM"; empty: the plan's, else the device's default
  std::int64_t sequence = 0, batch = 0;  ///< tokens, sequences; 0: the plan's, else chosen
  std::int64_t sequences_per_device = 0;  ///< in place of `batch`: its sequences grow with the devices; 0: none
  std::vector<std::string> axes;     ///< "tensor=1,2,4"
  std::vector<std::pair<std::string, std::string>> set;  ///< plan fields and their values as JSON, in place of the subject's; not searched, but for "auto"
  std::vector<std::int64_t> compared;  ///< device counts that share one chosen batch; empty: only `devices`
};

struct Question {
  std::string document;              ///< JSON of the plan behind all candidates, without the varied fields
  std::string file;                  ///< for error messages
  PlanDraft draft;                   ///< parsed from the document
  std::optional<PlanDraft> own;      ///< a whole plan with its own layout, which candidates replace
  std::vector<Axis> axes;
  std::vector<std::string> told;     ///< automatic choices, one sentence each
  std::vector<std::string> unsearched;  ///< axes that --axis would add: "token_dispatcher=alltoall,deepep"
  StackSwitches switches;            ///< fields that candidates turn on, because neither the plan nor an axis says them
  bool chosen_micro_batches = false; ///< the values of micro_batch_size are default_axes()'
};

/// Reads everything that a request names. Throws ConfigError and InfeasibleError.
Question read_question(const Request& request);

}  // namespace tandem::search
