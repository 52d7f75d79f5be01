#pragma once
// A plan as it was written, before anything is filled in: searches set fields of it and complete it again and again, without text.

#include <bitset>
#include <string>
#include <string_view>
#include <vector>

#include "models/fields/plan_fields.hpp"

namespace tandem {

struct PlanDraft {
  Plan plan;    ///< only what the file and its presets say; `file` and the device's generation are set
  Given given;  ///< the fields that they say
};

/// Reads a plan file's text. Throws as parse_plan does, but for what only a completed plan can show.
PlanDraft read_draft(std::string_view text, const std::string& file, const PlanContext& context);

/// parallel.data where no plan says it: `ranks` over `others`, the product of the other degrees; 0 where that is no whole number.
std::int64_t derived_data(std::int64_t ranks, std::int64_t others);

/// cluster.devices if the plan leaves it out: enough for the ranks of all degrees. 0 if that is no whole number or too many.
std::int64_t derived_devices(const Plan& plan);

/// The draft with every field filled in; nothing is checked. Data ranks or devices that do not follow stay 1.
Plan completed(const PlanDraft& draft);

/// Problems of a completed plan that no framework could run: contradictions, sizes and layouts that do not divide. Rules of its stack are
/// not among it.
Problems plan_problems(const Plan& plan);

/// The problems for which require_lowerable() would refuse a completed plan.
Problems lowering_gaps(const Plan& plan);

/// The reasons, by number, for which a field can be without effect.
using IdleRows = std::vector<std::size_t>;
IdleRows idle_rows(std::string_view field);

/// The fields that have no effect given the other fields of a completed plan.
class IdleFields {
 public:
  explicit IdleFields(const Plan& plan);
  bool has(const IdleRows& rows) const;
  bool has(std::string_view field) const { return has(idle_rows(field)); }

 private:
  std::bitset<256> idle_;  ///< by reason
};

/// Whether completed() gives no other field a value that depends on this one: in a completed plan it can be set alone. Conditions of
/// stacks are not among it.
bool stands_alone(std::string_view field);

}  // namespace tandem
