#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "experiments/tandem/planning/answer_parts.hpp"
#include "models/fields/plan_fields.hpp"
#include "reports/prediction/text.hpp"

namespace tandem::planning {
namespace {

/// "seq_length 32768, lora.rank 8": the fields that a phase sets, without their part of the plan.
std::string fields_text(const Phase& phase) {
  std::string out;
  for (const auto& [field, value] : phase.fields) out += (out.empty() ? "" : ", ") + field.substr(field.find('.') + 1) + " " + value;
  return out;
}

/// What a reader of a row must know of its phase.
std::string what_differs(const Phase& asked, const PricedPhase& p, bool with_layout) {
  const char* verdicts[] = {"", "tight", "DOES NOT FIT"};
  const std::string layout = with_layout ? short_layout(p.assessment.plan) : "";
  const std::string verdict = verdicts[static_cast<std::size_t>(p.budget.memory)];
  std::string out;
  for (const std::string& part : {fields_text(asked), layout, verdict})
    if (!part.empty()) out += (out.empty() ? "  " : "; ") + part;
  return out;
}

}  // namespace

std::string short_layout(const Plan& plan) {
  const ParallelSpec& p = plan.parallel;
  std::string out;
  for (const auto& [name, degree] : {std::pair("dp", p.data), std::pair("tp", p.tensor), std::pair("pp", p.pipeline), std::pair("cp", p.context),
                                     std::pair("ep", p.expert), std::pair("vpp", p.virtual_pipeline)})
    if (degree > 1) out += std::string(name) + " " + std::to_string(degree) + ", ";
  out += "mbs " + std::to_string(plan.training.micro_batch_size);
  if (p.zero_stage > 0) out += ", zero " + std::to_string(p.zero_stage);
  const std::string again = find_field("training.recompute")->write(plan).get<std::string>();
  return again == "none" ? out : out + ", recompute " + again;
}

std::string phases_text(const Answer& a) {
  const Option& o = *a.best();
  if (!o.phased()) return "";
  const Span span = span_of(o.budget);
  const std::string first = short_layout(o.assessment().plan);
  const auto other = [&](const PricedPhase& p) { return short_layout(p.assessment.plan) != first; };
  const bool with_layout = o.assessment().candidate.found || std::any_of(o.phases.begin(), o.phases.end(), other);
  std::string out = "  phase" + aligned("tokens", 21) + aligned("steps", 12) + aligned("tokens a step", 15) + aligned("step", 10) + aligned(span.name, 9) +
                    aligned("money" + currency_of(o.conditions()), 16) + aligned("goodput", 9) + "\n";
  for (std::size_t i = 0; i < o.phases.size(); ++i) {
    const PricedPhase& p = o.phases[i];
    const Budget& b = p.budget;
    out += "  " + padded(std::to_string(i + 1), 5) + aligned(figure(p.conditions.tokens), 21) + aligned(steps_text(b.steps), 12) +
           aligned(count_text(p.assessment.plan.global_batch_tokens()), 15) + aligned(time_text(b.step_s.value), 10) +
           aligned(figure(span.of(b.days.value)), 9) + aligned(money_short(b), 16) + aligned(percent(b.goodput), 9) +
           what_differs(a.phases[i], p, with_layout) + "\n";
  }
  return out;
}

}  // namespace tandem::planning
