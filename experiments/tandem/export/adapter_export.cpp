#include "experiments/tandem/export/adapter_export.hpp"

#include <cmath>
#include <nlohmann/json.hpp>

#include "exec/checkpoint/checkpoint.hpp"
#include "exec/weights/exported.hpp"
#include "experiments/tandem/base/prepared_plan.hpp"
#include "experiments/tandem/base/terminal.hpp"
#include "experiments/tandem/export/hub_model.hpp"
#include "models/huggingface/adapter_rows.hpp"
#include "reports/prediction/text.hpp"
#include "topology/plan_reader.hpp"

namespace tandem::program {
namespace {

using nlohmann::json;

/// A whole number without its point: PEFT declares lora_alpha as an integer.
json whole_if_it_is(double v) { return v == std::floor(v) ? json(static_cast<std::int64_t>(v)) : json(v); }

/// The fields of PEFT's LoraConfig (huggingface/peft 0.21: src/peft/tuners/lora/config.py).
json adapter_config(const AdapterSpec& lora, const std::vector<std::string>& modules, bool transposed) {
  return {{"peft_type", "LORA"}, {"task_type", "CAUSAL_LM"}, {"base_model_name_or_path", nullptr}, {"r", lora.rank},
          {"lora_alpha", whole_if_it_is(lora.alpha)}, {"lora_dropout", lora.dropout}, {"bias", "none"}, {"target_modules", modules},
          {"fan_in_fan_out", transposed}, {"use_rslora", false}, {"use_dora", false}, {"modules_to_save", nullptr},
          {"init_lora_weights", true}, {"inference_mode", true}};
}

}  // namespace

ExitCode export_adapters(const WeightsExport& o) {
  const exec::Checkpoint checkpoint = exec::load_checkpoint(o.checkpoint);
  if (!checkpoint.note.empty()) log(o.checkpoint + ": " + checkpoint.note);
  const Plan plan = parse_plan(checkpoint.run.plan_json, o.checkpoint, StackChoice{std::string(kOwnStack), std::nullopt});
  const AdapterSpec& lora = plan.training.lora;
  if (!lora.here())
    throw ConfigError(Problem{o.checkpoint, "training.lora", "", "is no part of the checkpoint's plan: it has no adapters", "export it with --to huggingface"});
  const HubModel model = chosen_hub_model(plan, o.type, o.config);
  const auto adapters = exec::whole_adapters(*checkpoint.state);
  const auto rows = naming(o.checkpoint, [&] { return huggingface::adapter_rows(model.table, plan.model, adapters); });
  const ExportType type = export_type(o, *checkpoint.state);
  const bool transposed = huggingface::adapts_transposed(model.table, adapters);
  const json config = adapter_config(lora, huggingface::adapter_modules(rows), transposed);
  const exec::ExportedFiles files = exec::export_weights(
      *checkpoint.state, rows, {o.out, config.dump(2) + "\n", type.type, o.most_bytes, "adapter_model", "adapter_config.json"});
  const std::int64_t steps = checkpoint.state->facts().steps;
  if (o.json)
    print_json(json{{"schema_version", 1}, {"type", model.table.type}, {"dtype", type.word}, {"steps", steps}, {"parameters", files.elements},
                    {"bytes", files.bytes}, {"files", files.names}}.dump(2) + "\n");
  log(o.out + ": adapters of " + model.table.architecture + " after " + count_text(steps) + " steps, rank " +
      std::to_string(lora.rank) + ", " + count_text(files.elements) + " parameters in " + type.word + ", " +
      bytes_text(static_cast<std::int64_t>(files.bytes)));
  return ExitCode::ok;
}

}  // namespace tandem::program
