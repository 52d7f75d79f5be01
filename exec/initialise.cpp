#include "exec/initialise.hpp"

#include <cmath>
#include <cstring>
#include <string_view>

#include "exec/param_layout.hpp"
#include "exec/random.hpp"
#include "models/base/error.hpp"

namespace tandem::exec {
namespace {

/// Residual projections start smaller, so that the residual stream's variance does not grow with depth (Radford et al.,
/// "Language models are unsupervised multitask learners", 2019, section 2.3).
double deviation(const Param& p, const ModelSpec& model) {
  if (p.init == Param::Init::normal_scaled)
    return model.init_std / std::sqrt(2.0 * static_cast<double>(model.num_layers));
  return model.init_std;
}

void write(const Param& p, const StageReplicas& stage, std::int64_t offset, const std::vector<double>& full,
           DType dtype) {
  if (offset < 0) return;
  for (std::size_t t = 0; t < stage.by_tensor_rank.size(); ++t)
    for (auto* arena : stage.by_tensor_rank[t])
      for_each_element(p, static_cast<std::int64_t>(t), [&](std::int64_t whole, std::int64_t local) {
        store(arena + offset, dtype, p.offset + local, full[static_cast<std::size_t>(whole)]);
      });
}

bool starts_at_zero(std::string_view name) {
  return name == "gradients" || name == "exp_avg" || name == "exp_avg_sq" || name == "loss";
}

void clear_state(const StageReplicas& stage) {
  for (const auto& a : stage.program->memory.allocations)
    if (starts_at_zero(a.name))
      for (const auto& replicas : stage.by_tensor_rank)
        for (auto* arena : replicas) std::memset(arena + a.offset, 0, static_cast<std::size_t>(a.bytes.count()));
}

}  // namespace

std::vector<double> initial_values(const Param& p, const Plan& plan) {
  std::vector<double> full(static_cast<std::size_t>(p.full_rows * p.full_cols), p.init == Param::Init::ones ? 1.0 : 0.0);
  if (p.init == Param::Init::ones || p.init == Param::Init::zeros) return full;
  const double sigma = deviation(p, plan.model);
  for (std::size_t i = 0; i < full.size(); ++i) full[i] = initial_value(plan.training.seed, p.init_id, i, sigma);
  return full;
}

void initialise(std::span<const StageReplicas> stages, const Plan& plan,
                const std::function<void(const std::string&, std::vector<double>&)>& replace) {
  const auto& dtypes = plan.training.dtypes;
  for (const auto& stage : stages) {
    clear_state(stage);
    const auto weights = state_offset(*stage.program, "weights"), master = state_offset(*stage.program, "master");
    for (const auto& p : stage.program->params) {
      auto full = initial_values(p, plan);
      if (replace) replace(p.name, full);
      require(full.size() == static_cast<std::size_t>(p.full_rows * p.full_cols), "initial values of another size");
      write(p, stage, weights, full, dtypes.weights);
      write(p, stage, master, full, dtypes.master);
    }
  }
}

}  // namespace tandem::exec
