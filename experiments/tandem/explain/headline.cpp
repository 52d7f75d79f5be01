#include "experiments/tandem/explain/headline.hpp"

#include "reports/prediction/plan_title.hpp"

namespace tandem::program {

std::string headline(const Plan& plan) {
  const TrainingSpec& t = plan.training;
  return title(plan) + ": " + degrees(plan) + ", " + count_text(plan.cluster.devices) + " devices of " + plan.cluster.preset + ", " +
         std::string(name(t.dtypes.compute)) + ", global batch " + count_text(t.global_batch_size) + " x " + count_text(t.seq_length) + " tokens";
}

}  // namespace tandem::program
