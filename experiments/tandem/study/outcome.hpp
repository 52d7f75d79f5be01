#pragma once
// What became of one plan of a study.

#include <cstdint>
#include <string>
#include <string_view>

#include "experiments/tandem/study/study.hpp"
#include "models/plan/plan.hpp"

namespace tandem::study {

/// How a plan of a study ended. `too_large`: predicted, but it does not fit the memory of the device.
/// `refused`: the simulator lacks something for it. `failed`: a bug.
enum class Status : std::uint8_t { ok, too_large, infeasible, refused, failed };
std::string_view name(Status s);

/// A point made ready: its completed plan as text, or why there is none.
struct Candidate {
  std::size_t point = 0;  ///< index into Study::points
  std::string key;        ///< of what its result depends on: plan, program, presets
  std::string refusal;    ///< why the plan is infeasible; empty: it can be simulated
};

/// Completes a plan of the study and names it. `program` stands for the version of the simulator: its results are of no
/// other. Throws ConfigError when it is no plan at all (a wrong type, a missing field): the study is wrong, not the
/// layout.
Candidate candidate(const Study& study, std::size_t point, const std::string& program);

/// Simulates a candidate: one line of results (a JSON object without line breaks; experiments/studies/README.md lists
/// the keys). Never throws for a plan that cannot be: that is a line with status and reason. Throws
/// std::bad_alloc where the host has no memory left.
std::string evaluate(const Study& study, const Candidate& candidate);

/// Names this build of the program and the presets that it reads: results belong to both.
std::string program_digest();

/// A plan with every field filled in, and what a cluster of the user's own says: its device, and what that has.
std::string whole_text(const Plan& plan);

/// 16 hexadecimal digits that name `text`.
std::string digest(std::string_view text);

}  // namespace tandem::study
