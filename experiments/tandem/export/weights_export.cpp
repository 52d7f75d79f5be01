#include "experiments/tandem/export/weights_export.hpp"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>

#include "exec/checkpoint/checkpoint.hpp"
#include "exec/weights/exported.hpp"
#include "exec/weights/merged_adapters.hpp"
#include "exec/weights/weight_files.hpp"
#include "experiments/tandem/base/prepared_plan.hpp"
#include "experiments/tandem/base/terminal.hpp"
#include "experiments/tandem/export/hub_model.hpp"
#include "models/base/files.hpp"
#include "models/base/text.hpp"
#include "models/huggingface/model_type.hpp"
#include "models/plan/kept_type.hpp"
#include "reports/prediction/text.hpp"
#include "topology/plan_reader.hpp"

namespace tandem::program {

namespace {

using nlohmann::json;

const std::map<std::string, std::pair<DType, const char*>> kTypes{{"fp64", {DType::fp64, "float64"}},
                                                                  {"fp32", {DType::fp32, "float32"}},
                                                                  {"bf16", {DType::bf16, "bfloat16"}},
                                                                  {"fp16", {DType::fp16, "float16"}}};

/// A user's configuration, in which fields that the runtime computes in another way have the runtime's values.
json config_like(const HubModel& model, const json& plan) {
  json config = *model.config;
  config.erase("quantization_config");  // the weights are written as numbers of 16 bits or more
  const json own = huggingface::config_of(model.table, plan);
  const std::string inner = huggingface::model_type_of(config, "config.json").inner;
  json& said = inner.empty() ? config : config[inner];
  for (const huggingface::WeightDifference& d : huggingface::weight_differences(model.table, *model.config, "config.json"))
    if (!d.field.empty()) said[d.field] = own.at(d.field);
  return config;
}

/// The folder of a configuration, or of a path to it.
std::string folder_of(const std::string& config) {
  if (is_folder(config)) return config;
  const std::size_t slash = config.rfind('/');
  return slash == std::string::npos ? "." : config.substr(0, slash);
}

/// Adds the tensors of towers beside the language model, as the user's files have them.
void add_towers(const exec::WeightFiles& files, const huggingface::WeightTable& table, exec::ExportOptions& options) {
  options.others = &files;
  for (const auto& [name, tensor] : files.tensors()) {
    const auto begins = [&name = name](const std::string& beginning) { return name.starts_with(beginning); };
    if (std::none_of(table.towers.begin(), table.towers.end(), begins)) continue;
    if (!tensor.type)
      throw ConfigError(Problem{files.path_of(tensor), name, tensor.type_name, "is no type that weights are copied in", "give the model before it was quantized"});
    options.copied.push_back(name);
  }
  if (options.copied.empty())
    throw ConfigError(Problem{files.path(), "", "", "has no tensors that begin with " + list_text(table.towers),
                              "give the folder of the whole model, or leave --config out to export the language model alone"});
}

}  // namespace

ExportType export_type(const WeightsExport& o, const exec::SavedState& state) {
  if (!o.dtype.empty()) return {kTypes.at(o.dtype).first, o.dtype};
  for (const exec::SavedTensor& t : state.tensors())
    for (const auto& [word, type] : kTypes)
      if (t.buffer == "weights" && type.first == t.type) return {type.first, word};
  throw ConfigError(Problem{o.checkpoint, "weights", "", "are in no type that is exported", "give --dtype"});
}

ExitCode export_checkpoint(const WeightsExport& o) {
  const exec::Checkpoint checkpoint = exec::load_checkpoint(o.checkpoint);
  if (!checkpoint.note.empty()) log(o.checkpoint + ": " + checkpoint.note);
  const Plan plan = parse_plan(checkpoint.run.plan_json, o.checkpoint, StackChoice{std::string(kOwnStack), std::nullopt});
  const HubModel model = chosen_hub_model(plan, o.type, o.config);
  const AdapterSpec& lora = plan.training.lora;
  const auto merged = lora.here() ? exec::merge_adapters(*checkpoint.state, plan.model, lora.scale()) : nullptr;
  const exec::SavedState& state = merged ? *merged : *checkpoint.state;
  const auto rows = naming(o.checkpoint, [&] {
    return huggingface::rows_in_files(model.table, plan.model, exec::whole_parameters(state, plan.model.vocab_size));
  });
  const auto [dtype, word] = export_type(o, *checkpoint.state);
  json config = o.config.empty() ? *model.config : config_like(model, json::parse(checkpoint.run.plan_json));
  config.erase("dtype");
  config["torch_dtype"] = kTypes.at(word).second;
  exec::ExportOptions options{o.out, config.dump(2) + "\n", dtype, o.most_bytes};
  std::optional<exec::WeightFiles> whole;
  if (!model.table.towers.empty()) add_towers(whole.emplace(folder_of(o.config)), model.table, options);
  const exec::ExportedFiles files = exec::export_weights(state, rows, options);
  if (o.json)
    print_json(json{{"schema_version", 1}, {"type", model.table.type}, {"dtype", word}, {"steps", checkpoint.state->facts().steps},
                    {"parameters", files.elements}, {"bytes", files.bytes}, {"files", files.names}}.dump(2) + "\n");
  log(o.out + ": " + model.table.architecture + " after " + count_text(checkpoint.state->facts().steps) + " steps, " +
      count_text(files.elements) + " parameters in " + word + ", " + bytes_text(static_cast<std::int64_t>(files.bytes)));
  for (const std::string& told : model.told) log(o.out + ": " + told);
  return ExitCode::ok;
}

}  // namespace tandem::program
