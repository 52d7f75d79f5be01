#pragma once
// Small plans trained on the CUDA backend over the host's runtime, beside the emulated backend.

#include <memory>
#include <string>
#include <vector>

#include "exec/device/cuda.hpp"
#include "exec/run/run.hpp"
#include "tests/agree/closeness.hpp"
#include "tests/agree/layouts.hpp"
#include "tests/emulated/emulated_backend.hpp"
#include "tests/hostcuda/runtime/settings.hpp"
#include "tests/patched_plan.hpp"

namespace tandem::tests {

/// Settings of the host's runtime, for as long as it is there.
class WithSettings {
 public:
  explicit WithSettings(const hostcuda::Settings& wanted) : before_(hostcuda::settings()) { hostcuda::settings() = wanted; }
  ~WithSettings() { hostcuda::settings() = before_; }
  WithSettings(const WithSettings&) = delete;
  WithSettings& operator=(const WithSettings&) = delete;

 private:
  hostcuda::Settings before_;
};

inline exec::RunOptions gathering(std::int64_t steps, exec::BackendFactory backend) {
  exec::RunOptions options;
  options.steps = steps;
  options.gather_gradients = options.gather_weights = true;
  options.make_backend = std::move(backend);
  return options;
}

inline exec::RunResult trained(const Plan& plan, const exec::RunOptions& options) {
  return exec::run(plan, lower(plan), HashTokens(plan.model.vocab_size), options);
}

inline exec::RunResult on_emulated(const Plan& plan, std::int64_t steps = 2) {
  return trained(plan, gathering(steps, [](Rank) { return make_emulated_backend(); }));
}

inline exec::RunOptions cuda_options(std::int64_t steps = 2) {
  exec::RunOptions options = gathering(steps, [](Rank) { return exec::make_cuda_backend(); });
  options.make_communicators = [](exec::World& world) {
    return exec::make_cuda_communicators(static_cast<int>(world.here().size()));
  };
  return options;
}

inline exec::RunResult on_cuda(const Plan& plan, std::int64_t steps = 2) { return trained(plan, cuda_options(steps)); }

inline bool same(const std::vector<exec::GatheredTensor>& a, const std::vector<exec::GatheredTensor>& b) {
  if (a.size() != b.size()) return false;
  for (std::size_t i = 0; i < a.size(); ++i)
    if (a[i].name != b[i].name || a[i].values != b[i].values) return false;
  return true;
}

/// Losses, gradients and weights, bit for bit.
inline bool same(const exec::RunResult& a, const exec::RunResult& b) {
  if (a.steps.size() != b.steps.size() || a.gradients.size() != b.gradients.size()) return false;
  for (std::size_t s = 0; s < a.steps.size(); ++s)
    if (a.steps[s].loss != b.steps[s].loss || a.steps[s].grad_norm != b.steps[s].grad_norm) return false;
  for (std::size_t s = 0; s < a.gradients.size(); ++s)
    if (!same(a.gradients[s], b.gradients[s])) return false;
  return same(a.weights, b.weights);
}

}  // namespace tandem::tests
