#include "experiments/tandem/export/adapter_import.hpp"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

#include "exec/weights/pretrained.hpp"
#include "experiments/tandem/base/prepared_plan.hpp"
#include "experiments/tandem/base/terminal.hpp"
#include "experiments/tandem/export/hub_model.hpp"
#include "experiments/tandem/export/peft_config.hpp"
#include "experiments/tandem/export/quantized_base.hpp"
#include "models/base/error.hpp"
#include "models/base/text.hpp"
#include "models/huggingface/adapter_rows.hpp"
#include "models/huggingface/config_file.hpp"

namespace tandem::program {
namespace {

using nlohmann::json;

constexpr const char* kModel = "adapter_model.safetensors";
constexpr double kSame = 1e-9;  // relative, between factors that were computed from roots

void require_same(const PeftConfig& config, const AdapterSpec& lora) {
  std::vector<Problem> problems;
  if (config.rank != static_cast<double>(lora.rank))
    problems.push_back({config.file, "r", config.said_text("r"), "is not the plan's training.lora.rank, " + std::to_string(lora.rank), "give the plan this rank"});
  if (std::abs(config.factor - lora.scale()) > kSame * std::abs(config.factor))
    problems.push_back({config.file, "lora_alpha", config.said_text("lora_alpha"),
                        "gives the factor " + value_text(json(config.factor)) + "; the plan's alpha / rank is " + value_text(json(lora.scale())),
                        "give the plan training.lora.alpha " + value_text(json(config.factor * static_cast<double>(lora.rank)))});
  if (!problems.empty()) throw ConfigError(problems);
}

/// Dropout is no part of the adapter's values, so a training may change it.
void note_dropout(const PeftConfig& config, const AdapterSpec& lora) {
  if (config.dropout != lora.dropout)
    log(config.file + ": lora_dropout " + value_text(json(config.dropout)) + "; this training has the plan's training.lora.dropout, " + value_text(json(lora.dropout)));
}

std::vector<std::byte> bytes_of(const exec::WeightFiles& files, const exec::StoredTensor& tensor) {
  std::vector<std::byte> bytes(tensor.bytes);
  files.read(tensor, 0, bytes);
  return bytes;
}

/// The targets that the files have adapters of.
std::vector<std::string> targets_in(const exec::WeightFiles& files, const std::vector<huggingface::TargetModules>& all) {
  std::set<std::string> modules;
  for (const auto& [name, tensor] : files.tensors())
    if (std::string module = huggingface::module_of_adapter(name); !module.empty()) modules.insert(std::move(module));
  std::vector<std::string> out;
  for (const huggingface::TargetModules& t : all)
    if (std::any_of(t.modules.begin(), t.modules.end(), [&](const std::string& m) { return modules.contains(m); }))
      out.push_back(t.target);
  return out;
}

/// Whether the plan has an adapter for the target, be it the one of the whole matrix.
bool adapts(const AdapterSpec& lora, const std::string& target) {
  const auto of_matrix = [&](const AdapterPart& p) { return p.target == target && lora.on(p.matrix); };
  return lora.on(target) || std::any_of(kAdapterParts.begin(), kAdapterParts.end(), of_matrix);
}

std::string targets_text(const std::vector<std::string>& targets) { return json(targets).dump(); }

/// Throws ConfigError unless the plan has adapters of these targets and no others.
void require_targets(const AdapterFolder& folder, const std::vector<std::string>& found,
                     const std::vector<huggingface::TargetModules>& all) {
  const AdapterSpec& lora = folder.plan.training.lora;
  const bool same = std::all_of(all.begin(), all.end(), [&](const huggingface::TargetModules& t) {
    return adapts(lora, t.target) == (std::find(found.begin(), found.end(), t.target) != found.end());
  });
  if (same || found.empty()) return;
  throw ConfigError(Problem{folder.plan.file, "training.lora.targets", targets_text(lora.targets),
                            "are not the matrices that " + folder.path + "/" + kModel + " has adapters of", "set it to " + targets_text(found)});
}

/// A plan has one A for the parts (queries, keys, values; gate, up) of a matrix that is a target itself.
void require_shared(const exec::WeightFiles& files, const huggingface::ParameterRows& p, const std::vector<std::string>& found) {
  const auto tensor = [&](std::size_t i) {
    const auto found = files.tensors().find(p.tensors[i].name);
    return found == files.tensors().end() ? nullptr : &found->second;
  };
  for (std::size_t i = 1, at = 0; p.parameter.name.ends_with(kAdapterA) && i < p.tensors.size(); ++i) {
    if (p.runs[i].row != p.runs[at].row) at = i;  // the next expert's
    const exec::StoredTensor *const first = tensor(at), *const other = tensor(i);
    if (i == at) continue;
    if (first == nullptr || other == nullptr || bytes_of(files, *first) == bytes_of(files, *other)) continue;
    throw ConfigError(Problem{files.path_of(*other), p.tensors[i].name, "", "is not equal to " + p.tensors[at].name +
                              ", and the plan's targets have one matrix A for both", "set training.lora.targets to " + targets_text(found)});
  }
}

/// The number as JSON has it, without a point where it is whole.
nlohmann::ordered_json whole_if_it_is(double v) {
  return v == std::floor(v) ? nlohmann::ordered_json(static_cast<std::int64_t>(v)) : nlohmann::ordered_json(v);
}

}  // namespace

std::unique_ptr<exec::SavedState> open_adapters(const AdapterFolder& folder) {
  const AdapterSpec& lora = folder.plan.training.lora;
  if (!lora.here())
    throw ConfigError(Problem{folder.plan.file, "training.lora", "", "is missing: --adapter gives the values of adapters",
                              "give the plan the adapter's rank, alpha and targets"});
  const PeftConfig config = read_peft_config(folder.path);
  require_same(config, lora);
  note_dropout(config, lora);
  exec::WeightFiles files(folder.path + "/" + kModel);
  const auto all = huggingface::target_modules(folder.table, folder.plan.model);
  const std::vector<std::string> found = targets_in(files, all);
  require_targets(folder, found, all);
  auto rows = naming(folder.plan.file, [&] { return huggingface::adapter_rows(folder.table, folder.plan.model, folder.adapters); });
  for (const huggingface::ParameterRows& p : rows) require_shared(files, p, found);
  huggingface::WeightTable names;  // PEFT's names have no variants
  return exec::open_pretrained(std::move(files), names, std::move(rows));
}

nlohmann::ordered_json adapter_section(const std::string& folder, const Plan& plan, const std::string& model) {
  const PeftConfig config = read_peft_config(folder);
  const nlohmann::json said = huggingface::read_config(model);
  const std::string file = huggingface::config_path(model);
  const huggingface::WeightTable names = weight_table_of(said, file);
  const auto targets = huggingface::target_modules(names, plan.model);
  nlohmann::ordered_json lora{{"rank", whole_if_it_is(config.rank)}, {"alpha", whole_if_it_is(config.plan_alpha())},
                              {"targets", targets_said(config, targets, huggingface::other_modules(names, plan.model, targets))}};
  if (config.dropout > 0) lora["dropout"] = config.dropout;
  lora.update(quantized_base(said, file));
  return lora;
}

}  // namespace tandem::program
