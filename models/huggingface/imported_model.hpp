#pragma once
// Converts a Hugging Face configuration to a plan's model section, and lists what a plan cannot express.

#include <cstdint>
#include <string>
#include <vector>

#include "models/huggingface/facts.hpp"

namespace tandem::huggingface {

/// A field of the plan, with its source.
struct ImportedField {
  std::string path;  ///< "model.num_layers"
  Traced value;
};

/// A feature of the configuration that a plan cannot express.
struct MissingFeature {
  std::string name;        ///< "sliding windows"
  FieldValues fields;      ///< fields that ask for it; empty if the model type does
  std::string instead;     ///< what the plan has in its place
  bool refused = true;     ///< false: only a note; operations and product sizes are unaffected
  std::int64_t parameters = 0;  ///< parameters of the model that belong to it
  std::string id = {};     ///< in the type's table; empty: none
  bool training = false;   ///< it is a matter of training alone: trained weights give the same losses without it
};

/// Counts by the model type's formulas, for the model as transformers builds it, without multi-token prediction.
struct TrueCounts {
  std::int64_t parameters = 0;         ///< all, without buffers
  std::int64_t text_parameters = 0;    ///< without vision and audio towers
  std::int64_t mtp_parameters = 0;     ///< additional parameters of the plan's MTP modules
  double forward_flops = 0;            ///< matrix products per token at `sequence`, mean over a causal sequence, with MTP modules
  double training_flops = 0;           ///< forward and backward: three times as many where gradients flow
  double mtp_training_flops = 0;       ///< the part of them in MTP modules
  std::int64_t sequence = 0;
  std::vector<std::string> uncounted;  ///< parts of the model that no formula here counts
  bool text_complete = true;           ///< no uncounted part belongs to the language model
};

struct ImportedModel {
  std::string file;                    ///< the config.json
  std::string model_type;              ///< as the table is named
  std::string name;                    ///< for people
  std::vector<std::string> sources;    ///< sources of the type's formulas and defaults
  std::vector<ImportedField> fields;   ///< of the model section, in the order of the plan's fields
  std::vector<ImportedField> training; ///< likewise of the training section: what the type's own training has
  std::vector<MissingFeature> features;
  std::vector<std::string> ignored;    ///< fields of the file that no plan needs
  std::vector<std::string> unknown;    ///< fields of the file that are unknown here
  TrueCounts counts;

  /// The plan's model section.
  nlohmann::json section() const;
};

/// Reads a config.json or a folder with one. `sequence`: tokens of a training sequence, for windows and FLOPs. Default
/// for FLOPs: the smaller of 4,096 and the model's longest; a window then counts if it is shorter than the model's
/// longest. Throws ConfigError for a file that is no configuration, an unknown model type, or a missing or wrong
/// field. Throws InfeasibleError for types without a similar plan. Other unsupported features are left to the caller.
ImportedModel import_model(const std::string& path, std::int64_t sequence = 0);

/// Likewise for a configuration that is in memory. `file` is its name, for messages.
ImportedModel import_config(const nlohmann::json& config, const std::string& file, std::int64_t sequence = 0);

/// Adds a refused feature if the plan's count differs and no feature says why: then the model type's table lacks a rule.
/// `plan_parameters`: those of the plan, with the vocabulary of the file.
void refuse_other_counts(ImportedModel& model, std::int64_t plan_parameters);

/// One problem for each refused feature.
std::vector<Problem> refusals(const ImportedModel& model);

}  // namespace tandem::huggingface
