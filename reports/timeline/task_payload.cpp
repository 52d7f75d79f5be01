#include "reports/timeline/task_payload.hpp"

#include <nlohmann/json.hpp>
#include <variant>

#include "models/ops/collective_bytes.hpp"

namespace tandem {

TaskPayload::TaskPayload(const std::string& plan_json) {
  const nlohmann::json plan = nlohmann::json::parse(plan_json, nullptr, false);
  const nlohmann::json::json_pointer field("/parallel/expert");
  if (plan.contains(field) && plan[field].is_number_integer()) expert_ranks_ = plan[field];
}

Bytes TaskPayload::of(const Op& op) const {
  const auto* c = std::get_if<Collective>(&op);
  if (c == nullptr || c->copies.experts == 0 || expert_ranks_ < 1) return payload(op);
  return expert_ranks_ * copied_bytes(*c, expert_ranks_);
}

}  // namespace tandem
