#include "models/plan/kept_type.hpp"

namespace tandem {

DType kept_type(const Plan& plan, std::string_view buffer) {
  const DTypes& d = plan.training.dtypes;
  const bool copied = plan.parallel.zero_stage == 3 && plan.parallel.unit_copies != UnitCopies::none;
  if (buffer == "weights") return copied ? d.master : d.weights;
  return buffer == "master" ? d.master : d.optimizer_state;
}

}  // namespace tandem
