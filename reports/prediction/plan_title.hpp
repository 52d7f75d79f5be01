#pragma once
// The title of a plan above its tables and pages.

#include <algorithm>
#include <filesystem>
#include <string>

#include "models/plan/active_parameters.hpp"
#include "models/plan/plan.hpp"
#include "reports/prediction/text.hpp"

namespace tandem {

/// The plan's name, its model's, or its file's.
inline std::string title(const Plan& plan) {
  if (!plan.name.empty()) return plan.name;
  return !plan.model.name.empty() ? plan.model.name : std::filesystem::path(plan.file).stem().string();
}

/// "tensor 8 x pipeline 4 x data 2 x context 2, experts over 8"; context and experts only where there are such ranks.
inline std::string degrees(const Plan& plan) {
  const ParallelSpec& p = plan.parallel;
  return "tensor " + std::to_string(p.tensor) + " x pipeline " + std::to_string(p.pipeline) + " x data " + std::to_string(p.data) +
         (p.context > 1 ? " x context " + std::to_string(p.context) : "") +
         (p.expert > 1 ? ", experts over " + std::to_string(p.expert) : "");
}

/// "12,879,925,248 active of a token, 12,748,853,248 without the embedding": for a mixture of experts.
inline std::string active_text(const ModelSpec& model) {
  const std::int64_t active = active_parameters(model), embedding = count_parameters(model, model.vocab_size).embedding;
  return count_text(active) + " active of a token, " + count_text(active - embedding) + " without the embedding";
}

/// ", of adapters 20,185,088, which alone are trained": only for a plan with adapters.
inline std::string adapters_text(const Plan& plan) {
  const std::int64_t adapters = trained_in_adapters(plan);
  return adapters > 0 ? ", of adapters " + count_text(adapters) + ", which alone are trained" : "";
}

/// A remark for chips that hold several devices, else empty.
inline std::string device_text(const Plan& plan) {
  return plan.cluster.generation.starts_with("trainium") ? " (a device is a NeuronCore, not a chip)" : "";
}

/// "Hopper devices", "CPUs".
inline std::string devices_text(const std::string& generation) {
  if (generation == "cpu") return "CPUs";
  const std::size_t capitals = generation.starts_with("cdna") ? generation.size() : 1;  // an abbreviation
  std::string text = generation;
  std::transform(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(capitals), text.begin(),
                 [](char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c; });
  return text + " devices";
}

/// "stack megatron-core as of 2026-08"; if the plan names no stack, also why this one was chosen.
inline std::string stack_text(const Plan& plan) {
  const std::string chosen = "stack " + plan.stack.name + (plan.stack.as_of.said() ? " as of " + text_of(plan.stack.as_of) : "");
  const auto& defaults = plan.stack.facts.defaults;
  const bool named = std::none_of(defaults.begin(), defaults.end(), [](const StackDefault& d) { return d.field == "stack.name"; });
  if (named) return chosen;
  if (plan.cluster.generation.empty())
    return chosen + " (not named by the plan, and its cluster's device names no generation; --stack NAME[@YYYY-MM] changes it)";
  const std::string devices = devices_text(plan.cluster.generation);
  // Tandem's own stack claims CPUs alone.
  const bool unclaimed = plan.stack.name == "tandem" && plan.cluster.generation != "cpu";
  return chosen + " (not named by the plan: " + (unclaimed ? "no stack claims " : "the framework most used on ") + devices +
         "; --stack NAME[@YYYY-MM] changes it)";
}

}  // namespace tandem
