#include "experiments/tandem/explain/step_parts.hpp"

#include <algorithm>

#include "models/base/text.hpp"
#include "reports/prediction/text.hpp"

namespace tandem::program {

namespace {

struct Name {
  const char *key, *words;
};
constexpr Name kKernelNames[] = {{"products", "matrix products"}, {"attention", "attention"}, {"other", "other kernels"}};
constexpr Name kNames[] = {{"optimizer", "optimizer"},
                           {"tensor_comm", "exposed: tensor ranks"},
                           {"context_comm", "exposed: context ranks"},
                           {"expert_comm", "exposed: expert ranks"},
                           {"data_comm", "exposed: data ranks"},
                           {"pipeline_comm", "exposed: sends between stages"},
                           {"bubble", "waiting for other ranks (bubble)"},
                           {"launch", "launches by the host"},
                           {"host_copy", "exposed: copies of the host's states"}};

}  // namespace

std::vector<StepPart> step_parts(const Prediction& prediction) {
  const TimeBreakdown& shares = prediction.roles[prediction.critical_role].time_breakdown_s;
  std::vector<StepPart> out;
  for (const auto& [key, words] : kKernelNames) out.push_back({words, prediction.kernels_s.at(key)});
  for (const auto& [key, words] : kNames) out.push_back({words, shares.at(key)});
  std::erase_if(out, [](const StepPart& p) { return p.seconds <= 0; });
  std::stable_sort(out.begin(), out.end(), [](const StepPart& a, const StepPart& b) { return a.seconds > b.seconds; });
  return out;
}

std::string to_text(const std::vector<StepPart>& parts) {
  double step = 0;
  for (const StepPart& p : parts) step += p.seconds;
  const auto row = [&](const std::string& name, double seconds) {
    return "  " + padded("part", 10) + padded(name, 38) + aligned(number_text(seconds, 12), 18) + " s " +
           aligned(number_text(100 * seconds / step, 1), 6) + " %\n";
  };
  std::string out;
  for (const StepPart& p : parts) out += row(p.name, p.seconds);
  return parts.empty() ? out : out + row("step", step);
}

}  // namespace tandem::program
