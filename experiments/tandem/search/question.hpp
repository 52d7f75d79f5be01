#pragma once
// What a search is about: a model or a plan, a cluster, and the fields that vary.

#include <cstdint>
#include <string>
#include <vector>

#include "experiments/tandem/search/axis.hpp"
#include "models/planfile/plan_draft.hpp"

namespace tandem::search {

/// As the command line says it.
struct Request {
  std::string subject;               ///< a model preset, a plan file, a model preset's file or a Hugging Face config.json
  std::string cluster;               ///< preset or path; empty: the plan's
  std::int64_t devices = 0;          ///< 0: the plan's
  std::string stack;                 ///< "NAME" or "NAME@YYYY-MM"; empty: the plan's, else the device's
  std::int64_t sequence = 0, batch = 0;  ///< tokens, sequences; 0: the plan's, else chosen
  std::vector<std::string> axes;     ///< "tensor=1,2,4"
  std::vector<std::int64_t> compared;  ///< numbers of devices that get one batch, where it is chosen; empty: `devices` alone
};

struct Question {
  std::string document;              ///< the plan that candidates are made from, as JSON, without the fields that vary
  std::string file;                  ///< for messages
  PlanDraft draft;                   ///< of that document
  std::vector<Axis> axes;
  std::vector<std::string> told;     ///< what was chosen that nobody said, one sentence each
};

/// Reads everything that a request names. Throws ConfigError and InfeasibleError.
Question read_question(const Request& request);

}  // namespace tandem::search
