#include "models/huggingface/adapter_targets.hpp"

#include <algorithm>
#include <set>

#include "models/base/error.hpp"
#include "models/huggingface/adapter_rows.hpp"
#include "models/plan/adapter_parts.hpp"

namespace tandem::huggingface {
namespace {

constexpr std::string_view kLayer = "{layer}";

/// "layer3.qkv.q", "layer3.shared.fc2", "layer3.experts.fc1".
std::string place_of(std::int64_t layer, std::string_view target, bool experts) {
  std::string name(target);
  for (const AdapterPart& p : kAdapterParts)
    if (p.target == target) name = std::string(p.matrix) + "." + std::string(p.part);
  return "layer" + std::to_string(layer) + (experts && name.starts_with("fc") ? ".shared." : ".") + name;
}

/// The modules of a target in a layer; none if it has no such modules.
std::vector<std::string> modules_in(const WeightTable& table, const ModelSpec& model, std::int64_t layer, std::string_view target) {
  const LayerKind kind = model.kind(layer);
  const MatrixSize size = target_size(model, kind, target);
  if (size.out == 0) return {};
  const std::string name = place_of(layer, target, kind.has_experts());
  const std::int64_t experts = target.starts_with("experts.") ? model.moe.num_experts : 1;
  const WholeParameter a{name + std::string(kAdapterA), experts, size.in}, b{name + std::string(kAdapterB), experts * size.out, 1};
  try {
    return modules_of(adapter_rows(table, model, {a, b}));
  } catch (const InfeasibleError&) {  // the type has other modules here
    return {};
  }
}

/// Whether a parameter of a weight table ("layer.shared.gated_fc1.weight") is a matrix that can have an adapter, or its bias.
bool is_target(std::string name) {
  name = name.substr(0, name.rfind('.'));
  for (const std::string_view before : {"layer.", "decoder_layer.", "shared.", "gated_"})
    if (name.starts_with(before)) name.erase(0, before.size());
  return std::find(kAdapterTargets.begin(), kAdapterTargets.end(), name) != kAdapterTargets.end();
}

TargetModules all_modules(const WeightTable& table, const ModelSpec& model, std::string_view target) {
  TargetModules all{std::string(target), {}};
  for (std::int64_t l = 0; l < model.num_layers; ++l) {
    const std::vector<std::string> here = modules_in(table, model, l, target);
    all.modules.insert(all.modules.end(), here.begin(), here.end());
  }
  return all;
}

/// A gate beside queries is in their module, and in no part.
bool may_be_parts(const ModelSpec& model, std::string_view matrix) { return matrix != "qkv" || !model.attention_gate; }

}  // namespace

bool TargetModules::named(const std::string& name) const {
  return std::any_of(modules.begin(), modules.end(), [&](const std::string& m) { return m == name || m.ends_with("." + name); });
}

std::vector<TargetModules> target_modules(const WeightTable& table, const ModelSpec& model) {
  std::vector<TargetModules> out;
  const auto add = [&](std::string_view target) {
    TargetModules all = all_modules(table, model, target);
    if (!all.modules.empty()) out.push_back(std::move(all));
  };
  for (const std::string_view target : kAdapterTargets) {
    if (std::any_of(kAdapterParts.begin(), kAdapterParts.end(), [&](const AdapterPart& p) { return p.target == target; })) continue;
    const std::size_t before = out.size();
    for (const AdapterPart& p : kAdapterParts)
      if (p.matrix == target && may_be_parts(model, target)) add(p.target);
    if (out.size() == before) add(target);
  }
  return out;
}

std::vector<std::string> other_modules(const WeightTable& table, const ModelSpec& model,
                                       const std::vector<TargetModules>& targets) {
  std::set<std::string> all;
  for (const auto& [parameter, rule] : table.parameters) {
    if (is_target(parameter)) continue;
    for (const std::string& name : rule.of) {
      const std::string module = name.substr(0, name.rfind('.'));
      const std::size_t at = module.find(kLayer);
      if (at == std::string::npos) all.insert(module);
      for (std::int64_t l = 0; at != std::string::npos && l < model.num_layers; ++l)
        all.insert(module.substr(0, at) + std::to_string(l) + module.substr(at + kLayer.size()));
    }
  }
  for (const TargetModules& t : targets)
    for (const std::string& m : t.modules) all.erase(m);
  std::erase_if(all, [](const std::string& m) { return m.find('{') != std::string::npos; });  // of experts
  return {all.begin(), all.end()};
}

}  // namespace tandem::huggingface
