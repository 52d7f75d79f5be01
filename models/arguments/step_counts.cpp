#include "models/arguments/step_counts.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "models/base/error.hpp"
#include "models/plan/batch_growth.hpp"

namespace tandem::arguments {
namespace {

using nlohmann::json;

constexpr double kMost = 9e18;  // fits 64 bits

/// A count from 1; 3e11 is one, too. 0: not one.
std::int64_t count_of(const json& v) {
  if (!v.is_number() || !(v.get<double>() >= 1) || v.get<double>() > kMost) return 0;
  const auto n = v.get<std::int64_t>();
  return static_cast<double>(n) == v.get<double>() ? n : 0;
}

/// The ramp-up of an option; none where it has none. Empty for a list that is no ramp-up to `full`.
std::optional<BatchRampup> ramp_of(const json& said, std::int64_t full) {
  if (said.is_null()) return BatchRampup{};
  if (!said.is_array() || said.size() != 3) return std::nullopt;
  const BatchRampup ramp{count_of(said[0]), count_of(said[1]), count_of(said[2])};
  const bool counts = ramp.start > 0 && ramp.increment > 0 && ramp.samples > 0;
  const bool leads = ramp.start == full || ramp.start + ramp.increment <= full;
  return counts && leads ? std::optional(ramp) : std::nullopt;
}

std::int64_t required(const json& v, const char* what) {
  if (const std::int64_t n = count_of(v); n > 0) return n;
  throw ConfigError(Problem{"", "", value_text(v), std::string(what) + " must be a whole number from 1", "give one"});
}

json steps(std::int64_t sequences, const json& batch, const json& rampup, BatchGrowth::End end) {
  const std::int64_t full = count_of(batch);
  const std::optional<BatchRampup> ramp = full == 0 ? std::nullopt : ramp_of(rampup, full);
  return ramp ? json(std::max<std::int64_t>(1, BatchGrowth{full, *ramp}.steps_of(sequences, end))) : json();
}

}  // namespace

json steps_of_samples(const std::vector<json>& a) { return steps(required(a[0], "samples"), a[1], a[2], BatchGrowth::End::whole_batches); }

json steps_of_tokens(const std::vector<json>& a) {
  const std::int64_t tokens = required(a[0], "tokens"), sequence = required(a[1], "tokens of a sequence");
  return steps((tokens - 1) / sequence + 1, a[2], a[3], BatchGrowth::End::all_sequences);
}

}  // namespace tandem::arguments
