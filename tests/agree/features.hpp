#pragma once
// What a plan can have, as dimensions with values: the generator of parity cases picks one value of each.

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "models/plan/plan.hpp"

namespace tandem::tests {

enum class Dim : std::uint8_t {
  model,
  indexer,
  tied,
  tensor,
  sequence,
  pipeline,
  schedule,
  data,
  zero,
  zero_group,
  context,
  expert,
  expert_tensor,
  dispatcher,
  recompute,
  flash,
  overlap_reduce,
  overlap_gather,
  tensor_overlap,
  bucket,
  reduce_type,
  prefetch,
  unit_copies,
  order,
  optimizer,
  dropout,
  micro_batches,
  micro_batch_size,
  fusion,
  fill,
  transfers
};
inline constexpr std::size_t kDims = 31;

struct Value {
  std::string_view label;
  std::string_view patch;  ///< merged into the plan (RFC 7396)
};

/// One dimension. Its first value is the plain one: it never needs another feature.
struct Feature {
  Dim dim;
  std::string_view name;
  bool numerics;  ///< changes what is computed, so that the one-rank reference has it too
  std::vector<Value> values;
};
const std::vector<Feature>& features();

/// Index of the chosen value, by Dim.
using Case = std::array<std::uint8_t, kDims>;

std::string_view label(const Case& c, Dim d);
/// "gpt tensor=2 zero=3": what is not plain.
std::string text(const Case& c);

/// The plan as a user would write it.
std::string plan_json(const Case& c, std::string_view precision);
/// The same model and training on one rank: plain kernels, nothing recomputed, all micro-batches one after the other.
std::string reference_json(const Case& c, std::string_view precision);

/// The plan that all cases start from with `patches` merged in one after the other; devices and the batch follow from
/// the degrees and `micro_batches`.
std::string small_json(const std::vector<std::string>& patches, std::int64_t micro_batches);

/// Whether the case is left alone without asking the parser: more ranks than tests start, or a value that does nothing
/// in the others' company.
bool pointless(const Case& c);
/// Every reason for that, and every problem that the parser or the lowering has with the plan. Empty: it is legal.
std::vector<std::string> reasons_against(const Case& c);

}  // namespace tandem::tests
