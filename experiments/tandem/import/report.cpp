#include "experiments/tandem/import/report.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "experiments/tandem/import/origins.hpp"
#include "models/base/dotted_path.hpp"
#include "models/base/text.hpp"
#include "models/huggingface/config_file.hpp"
#include "models/plan/plan.hpp"
#include "models/planfile/plan_flops.hpp"
#include "reports/prediction/plan_title.hpp"
#include "reports/prediction/text.hpp"

namespace tandem::import {
namespace {

using huggingface::FieldValue;
using huggingface::MissingFeature;
using huggingface::ImportedField;
using nlohmann::ordered_json;

/// "+0.44 %": the plan's excess.
std::string share_text(double plan, double model) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%+.4f %%", model > 0 ? 100 * (plan - model) / model : 0.0);
  return text.data();
}

std::string flops_text(double flops) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.3f GFLOP", flops / 1e9);
  return text.data();
}

/// Of the model and the model with its modules of multi-token prediction, the nearer to what files of weights have.
double nearest_to_stored(const Import& import) {
  const double stored = static_cast<double>(import.stored_parameters), model = static_cast<double>(import.model.counts.parameters);
  const double whole = model + static_cast<double>(import.model.counts.mtp_parameters);
  return std::abs(stored - whole) < std::abs(stored - model) ? whole : model;
}

/// The line of the files of weights, and a warning where the model is counted in full and has others.
std::string stored_text(const Import& import) {
  constexpr double kBuffers = 1e-3;  // files also have buffers, such as routers' correction biases
  if (import.stored_parameters == 0) return {};
  const double stored = static_cast<double>(import.stored_parameters), model = nearest_to_stored(import);
  std::string out = "\n  " + padded("in the files of weights", 24) + count_text(import.stored_parameters);
  if (!import.model.counts.uncounted.empty()) return out;
  out += " (" + share_text(stored, model) + ")";
  if (std::abs(stored / model - 1) <= kBuffers) return out;
  return out + "\n  the files have other parameters than transformers builds of config.json: look for modules of multi-token prediction, or layers "
               "of another code (auto_map)";
}

/// Parameters that a plan can express.
double counted_parameters(const Import& import) {
  return static_cast<double>(import.model.counts.text_parameters + import.model.counts.mtp_parameters);
}

/// All fields that the configuration gives a plan.
std::vector<ImportedField> fields_of(const huggingface::ImportedModel& model) {
  std::vector<ImportedField> fields = model.fields;
  fields.insert(fields.end(), model.training.begin(), model.training.end());
  return fields;
}

double model_flops(const Import& import) { return import.model.counts.training_flops; }

ordered_json section_of(const Import& import) {
  ordered_json out = {{"name", import.model.name}};
  constexpr std::string_view kSection = "model.";
  for (const ImportedField& f : import.model.fields)
    put_dotted(out, std::string_view(f.path).substr(kSection.size()), f.value.value());
  return out;
}

std::string notes_of(const Import& import) {
  std::vector<std::string> left_out;
  for (const MissingFeature& f : import.model.features)
    if (f.refused) left_out.push_back(f.name);
  if (left_out.empty()) return "Read from " + import.model.file + ".";
  return "Approximates " + import.model.file + ", without " + list_text(left_out) + ": parameters " +
         (import.model.counts.text_complete
              ? share_text(static_cast<double>(import.plan_parameters), counted_parameters(import))
              : "not all counted") + ".";
}

ordered_json layout_of(const Import& import, const PlanRequest& plan) {
  const std::int64_t devices = std::max<std::int64_t>(1, plan.devices);
  ordered_json out = {{"name", import.model.name},
                      {"notes", notes_of(import)},
                      {"model", section_of(import)},
                      {"parallel", {{"data", devices}, {"zero_stage", devices > 1 ? 3 : 0}}},
                      {"training", {{"seq_length", import.model.counts.sequence}, {"micro_batch_size", 1}, {"global_batch_size", devices}}},
                      {"cluster", {{"preset", plan.cluster}, {"devices", devices}}}};
  for (const ImportedField& f : import.model.training) put_dotted(out, f.path, f.value.value());
  return out;
}

/// Converts problems of the plan's fields to problems of the configuration's fields that they came from.
std::vector<Problem> as_of_file(std::vector<Problem> problems, const huggingface::ImportedModel& model) {
  const std::vector<ImportedField> fields = fields_of(model);
  for (Problem& p : problems)
    for (const ImportedField& f : fields) {
      if (f.path != p.field) continue;
      std::vector<std::string> names;
      for (const FieldValue& v : f.value.from)
        if (v.text != "null") names.push_back(v.field);
      if (!names.empty()) p.field = list_text(names) + ", from which " + f.path;
    }
  return problems;
}

ModelSpec spec_of(const ordered_json& plan, const huggingface::ImportedModel& model) {
  const PlanContext context{[](const std::string&) { return std::string("cpu"); }};
  try {
    return parse_plan(plan.dump(), model.file, context).model;
  } catch (const InfeasibleError& e) {
    throw InfeasibleError(as_of_file(e.problems(), model));
  } catch (const ConfigError& e) {
    throw ConfigError(as_of_file(e.problems(), model));
  }
}

}  // namespace

ordered_json Import::document() const {
  return {{"name", model.name}, {"notes", notes_of(*this)}, {"source", ordered_json::array({model.file})}, {"model", section_of(*this)}};
}

ordered_json Import::document(const PlanRequest& plan) const { return plan.cluster.empty() ? document() : layout_of(*this, plan); }

Import make_import(const std::string& path, std::int64_t sequence, bool approximate) {
  Import out;
  out.model = huggingface::import_model(path, sequence);
  out.approximate = approximate;
  out.stored_parameters = huggingface::stored_parameters(huggingface::read_config(path), out.model.file);
  ordered_json plan = out.document(PlanRequest{"cpu-host", 1});
  plan.erase("parallel");
  const ModelSpec spec = spec_of(plan, out.model);
  out.plan_parameters = count_parameters(spec, spec.vocab_size).total;
  huggingface::refuse_other_counts(out.model, out.plan_parameters);
  out.refused = !approximate && !huggingface::refusals(out.model).empty();
  if (has_active_parameters(spec)) out.mixture = spec;
  if (has_forward_flops(spec.family)) out.plan_flops = training_flops(spec, out.model.counts.sequence);
  return out;
}

std::string to_text(const Import& import, bool preset) {
  const huggingface::ImportedModel& m = import.model;
  const double counted = counted_parameters(import);
  std::string out = m.file + ": model type " + m.model_type + "; " + list_text(m.sources) + "\n";
  const std::vector<ImportedField> fields = fields_of(m);
  out += fields_text(fields, Origin::used, "used");
  out += fields_text(fields, Origin::defaulted, "left out by the file: the default of transformers' class");
  out += fields_text(fields, Origin::derived, "derived");
  out += fields_text(fields, Origin::architecture, "fixed by the model type");
  if (preset && !m.training.empty()) out += "a preset has no training section: give training.dropout to the plan that names it\n";
  out += list_line("ignored", m.ignored) + list_line("not known here, ignored", m.unknown) + features_text(m.features, import.approximate);
  out += "parameters\n  " + padded("of the model", 22) + count_text(m.counts.parameters);
  if (m.counts.text_parameters != m.counts.parameters) out += " (" + count_text(m.counts.text_parameters) + " of the language model)";
  if (m.counts.mtp_parameters > 0) out += "\n  " + padded("of its MTP modules", 22) + count_text(m.counts.mtp_parameters);
  out += stored_text(import) + "\n  " + padded("of the plan", 22) + count_text(import.plan_parameters);
  const auto error_text = [&](double plan, double model) { return m.counts.text_complete ? " (" + share_text(plan, model) + ")\n" : "\n"; };
  out += error_text(static_cast<double>(import.plan_parameters), counted);
  if (import.mixture) out += "  " + padded("of the plan", 22) + active_text(*import.mixture) + "\n";
  if (import.plan_flops) {
    const double mtp = m.counts.mtp_training_flops;
    out += "FLOPs of a token, forward and backward, at " + count_text(m.counts.sequence) + " tokens, if all weights are trained\n  " + padded("of the model", 22) +
           flops_text(model_flops(import) - mtp) + (mtp > 0 ? "\n  " + padded("of its MTP modules", 22) + flops_text(mtp) : "") + "\n  " +
           padded("of the plan", 22) + flops_text(*import.plan_flops) + error_text(*import.plan_flops, model_flops(import));
  }
  return out + list_line("not counted in the model", m.counts.uncounted);
}

std::string to_json(const Import& import, const ordered_json& document) {
  const huggingface::ImportedModel& m = import.model;
  const double text = counted_parameters(import), plan = static_cast<double>(import.plan_parameters);
  ordered_json flops = nullptr;
  if (import.plan_flops)
    flops = {{"sequence", m.counts.sequence}, {"model", model_flops(import) - m.counts.mtp_training_flops},
             {"mtp_modules", m.counts.mtp_training_flops}, {"plan", *import.plan_flops},
             {"relative_error", m.counts.text_complete ? ordered_json(*import.plan_flops / model_flops(import) - 1) : ordered_json()}};
  const ordered_json out = {
      {"schema_version", 1}, {"file", m.file}, {"model_type", m.model_type}, {"sources", m.sources},
      {"status", import.refused ? "refused" : huggingface::refusals(m).empty() ? "read" : "approximated"},
      {"fields", fields_json(fields_of(m))}, {"ignored", m.ignored}, {"unknown", m.unknown}, {"features", features_json(m.features)},
      {"parameters", {{"model", m.counts.parameters}, {"language_model", m.counts.text_parameters}, {"mtp_modules", m.counts.mtp_parameters}, {"plan", import.plan_parameters},
                      {"files", import.stored_parameters > 0 ? ordered_json(import.stored_parameters) : ordered_json()},
                      {"relative_error", m.counts.text_complete ? ordered_json(plan / text - 1) : ordered_json()}}},
      {"active_parameters", import.mixture ? ordered_json(active_parameters(*import.mixture)) : ordered_json()},
      {"flops_per_token", flops}, {"not_counted", m.counts.uncounted}, {"document", import.refused ? ordered_json() : document}};
  return out.dump(2) + "\n";
}

}  // namespace tandem::import
