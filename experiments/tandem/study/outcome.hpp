#pragma once
// The result of one plan of a study.

#include <cstdint>
#include <string>
#include <string_view>

#include "experiments/tandem/study/study.hpp"
#include "models/plan/plan.hpp"

namespace tandem::study {

/// How a plan ended. `too_large`: predicted, but exceeds the device's memory. `refused`: the simulator does not support it.
/// `failed`: a bug.
enum class Status : std::uint8_t { ok, too_large, infeasible, refused, failed };
std::string_view name(Status s);

/// A prepared point: its completed plan's key, or why there is none.
struct Candidate {
  std::size_t point = 0;  ///< index into Study::points
  std::string key;        ///< hash of everything its result depends on: plan, program, presets
  std::string refusal;    ///< why the plan is impossible; empty: it can be simulated
};

/// Completes a plan of the study and computes its key. `program` identifies the
/// simulator's version, since results are only valid for that one. Throws ConfigError if
/// it is no plan (wrong type, missing field): then the study is wrong, not the layout.
Candidate candidate(const Study& study, std::size_t point, const std::string& program);

/// Simulates a candidate and returns a line of results: a JSON object without line
/// breaks (keys: experiments/studies/README.md). An impossible plan gives a line with
/// status and reason, not an exception. Throws std::bad_alloc if host memory runs out.
std::string evaluate(const Study& study, const Candidate& candidate);

/// Identifies this build of the program and the presets it reads; results depend on both.
std::string program_digest();

/// The plan with all fields filled in, followed by the user's own cluster files: cluster, device and their parts.
std::string whole_text(const Plan& plan);

/// A hash of `text`, as 16 hexadecimal digits.
std::string digest(std::string_view text);

}  // namespace tandem::study
