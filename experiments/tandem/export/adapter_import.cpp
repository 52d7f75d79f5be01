#include "experiments/tandem/export/adapter_import.hpp"

#include <cmath>
#include <nlohmann/json.hpp>

#include "exec/weights/pretrained.hpp"
#include "experiments/tandem/base/prepared_plan.hpp"
#include "experiments/tandem/base/terminal.hpp"
#include "models/base/error.hpp"
#include "models/base/json.hpp"
#include "models/base/text.hpp"
#include "models/huggingface/adapter_rows.hpp"

namespace tandem::program {
namespace {

using nlohmann::json;

constexpr const char *kConfig = "adapter_config.json", *kModel = "adapter_model.safetensors";
constexpr double kSame = 1e-9;  // relative, between factors that were computed from roots
constexpr const char* kMerge = "merge the adapter into its model: peft's merge_and_unload, then --weights";

/// Refuses what is no plain LoRA: fields of PEFT's LoraConfig, each with the value that it may have.
void add_other_methods(const json& config, const std::string& file, std::vector<Problem>& out) {
  const json plain{{"peft_type", "LORA"}, {"use_dora", false}, {"bias", "none"}, {"lora_bias", false}, {"modules_to_save", nullptr},
                   {"rank_pattern", json::object()}, {"alpha_pattern", json::object()}, {"layers_to_transform", nullptr},
                   {"alora_invocation_tokens", nullptr}, {"use_qalora", false}, {"monteclora_config", nullptr}, {"velora_config", nullptr},
                   {"arrow_config", nullptr}};
  for (const auto& [field, value] : plain.items())
    if (const json said = config.value(field, value); said != value && !said.is_null() && !(said.is_structured() && said.empty()))
      out.push_back({file, field, value_text(said), "not implemented: only plain LoRA is read", kMerge});
  // PiSSA, OLoRA, CorDA and LoftQ change the model's own weights at their start, and the adapter fits those alone.
  const json start = config.value("init_lora_weights", json(true));
  if (start.is_string() && start != "gaussian" && start != "orthogonal" && start != "eva")
    out.push_back({file, "init_lora_weights", value_text(start), "not implemented: it changes the model's own weights", kMerge});
}

/// Throws ConfigError unless the file is an object whose fields have the types that are read.
void require_types(const json& config, const std::string& file) {
  if (!config.is_object()) throw ConfigError(Problem{file, "", "", "is " + kind_text(config) + ", not an object", ""});
  std::vector<Problem> problems;
  for (const char* field : {"r", "lora_alpha"})
    if (config.contains(field) && !config[field].is_number())
      problems.push_back({file, field, value_text(config[field]), "is " + kind_text(config[field]) + ", not a number", ""});
  if (config.contains("use_rslora") && !config["use_rslora"].is_boolean())
    problems.push_back({file, "use_rslora", value_text(config["use_rslora"]), "is neither true nor false", ""});
  if (!problems.empty()) throw ConfigError(problems);
}

double factor_of(const json& config) {
  const double rank = config.value("r", 8.0), alpha = config.value("lora_alpha", 8.0);
  return alpha / (config.value("use_rslora", false) ? std::sqrt(rank) : rank);
}

void require_same(const json& config, const std::string& file, const AdapterSpec& lora) {
  require_types(config, file);
  std::vector<Problem> problems;
  add_other_methods(config, file, problems);
  const double factor = factor_of(config);
  if (config.value("r", json(8)) != lora.rank)
    problems.push_back({file, "r", value_text(config.value("r", json(8))), "is not the plan's training.lora.rank, " + std::to_string(lora.rank), "give the plan this rank"});
  if (std::abs(factor - lora.scale()) > kSame * std::abs(factor))
    problems.push_back({file, "lora_alpha", value_text(config.value("lora_alpha", json(8))),
                        "gives the factor " + value_text(json(factor)) + "; the plan's alpha / rank is " + value_text(json(lora.scale())),
                        "give the plan training.lora.alpha " + value_text(json(factor * static_cast<double>(lora.rank)))});
  if (!problems.empty()) throw ConfigError(problems);
}

/// Dropout is no part of the adapter's values, so a training may change it.
void note_dropout(const json& config, const std::string& file, const AdapterSpec& lora) {
  const json said = config.value("lora_dropout", json(0.0));
  if (said.is_number() && said != json(lora.dropout))
    log(file + ": lora_dropout " + value_text(said) + "; this training has the plan's training.lora.dropout, " + value_text(json(lora.dropout)));
}

std::vector<std::byte> bytes_of(const exec::WeightFiles& files, const exec::StoredTensor& tensor) {
  std::vector<std::byte> bytes(tensor.bytes);
  files.read(tensor, 0, bytes);
  return bytes;
}

/// A plan has one A for a matrix whose parts (queries, keys, values; gate, up) PEFT adapts one by one.
void require_shared(const exec::WeightFiles& files, const huggingface::ParameterRows& p) {
  const auto tensor = [&](std::size_t i) {
    const auto found = files.tensors().find(p.tensors[i].name);
    return found == files.tensors().end() ? nullptr : &found->second;
  };
  for (std::size_t i = 1, at = 0; p.parameter.name.ends_with(kAdapterA) && i < p.tensors.size(); ++i) {
    if (p.runs[i].row != p.runs[at].row) at = i;  // the next expert's
    const exec::StoredTensor *const first = tensor(at), *const other = tensor(i);
    if (i == at) continue;
    if (first == nullptr || other == nullptr || bytes_of(files, *first) == bytes_of(files, *other)) continue;
    throw ConfigError(Problem{files.path_of(*other), p.tensors[i].name, "", "not implemented: is not equal to " + p.tensors[at].name +
                              ", and a plan has one matrix A for both", kMerge});
  }
}

}  // namespace

std::unique_ptr<exec::SavedState> open_adapters(const AdapterFolder& folder) {
  const std::string file = folder.path + "/" + kConfig;
  const AdapterSpec& lora = folder.plan.training.lora;
  if (!lora.here())
    throw ConfigError(Problem{folder.plan.file, "training.lora", "", "is missing: --adapter gives the values of adapters",
                              "give the plan the adapter's rank, alpha and targets"});
  const json config = read_json(file);
  require_same(config, file, lora);
  note_dropout(config, file, lora);
  auto rows = naming(folder.plan.file, [&] { return huggingface::adapter_rows(folder.table, folder.plan.model, folder.adapters); });
  exec::WeightFiles files(folder.path + "/" + kModel);
  for (const huggingface::ParameterRows& p : rows) require_shared(files, p);
  huggingface::WeightTable names;  // PEFT's names have no variants
  return exec::open_pretrained(std::move(files), names, std::move(rows));
}

}  // namespace tandem::program
