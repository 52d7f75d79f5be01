#pragma once
// A Hugging Face configuration as a plan's model section: what a plan can say of it, and what it cannot.

#include <cstdint>
#include <string>
#include <vector>

#include "models/huggingface/facts.hpp"

namespace tandem::huggingface {

/// A field of the plan's model section and what it was made of.
struct ImportedField {
  std::string path;  ///< "model.num_layers"
  Traced value;
};

/// Something that the configuration asks for and a plan cannot say.
struct MissingFeature {
  std::string name;        ///< "sliding windows"
  FieldValues fields;      ///< what says so; empty where the model type does
  std::string instead;     ///< what the plan says in its place
  bool refused = true;     ///< false: it changes neither which operations there are nor the size of a product, and is only told
  std::int64_t parameters = 0;  ///< of the model's, those that belong to it
};

/// Counts by the formulas of the model type, of the model as transformers builds it, which has no modules of multi-token prediction.
struct TrueCounts {
  std::int64_t parameters = 0;         ///< all, without buffers
  std::int64_t text_parameters = 0;    ///< without towers for pictures and sound
  std::int64_t mtp_parameters = 0;     ///< besides, of the modules that a plan says
  double forward_flops = 0;            ///< matrix products a token at `sequence`, mean over a causal sequence, these modules' too
  double training_flops = 0;           ///< the same, forward and backward: three times as many where gradients go through
  std::int64_t sequence = 0;
  std::vector<std::string> uncounted;  ///< parts of it that no formula here counts
  bool text_complete = true;           ///< none of these belongs to the language model
};

struct ImportedModel {
  std::string file;                    ///< the config.json
  std::string model_type;              ///< as the table is named
  std::string name;                    ///< for people
  std::vector<std::string> sources;    ///< where the type's formulas and defaults stand
  std::vector<ImportedField> fields;   ///< in the order of the plan's fields
  std::vector<MissingFeature> features;
  std::vector<std::string> ignored;    ///< fields of the file that matter to no plan
  std::vector<std::string> unknown;    ///< fields of the file that nothing here knows
  TrueCounts counts;

  /// The plan's model section.
  nlohmann::json section() const;
};

/// Reads a config.json or a folder that has one. `sequence`: tokens of a training sequence, for windows and FLOPs. Without one, FLOPs
/// are those at the smaller of 4,096 and the longest that the model takes, and a window counts where it is shorter than that longest.
/// Throws ConfigError where the file is no such configuration, its model type is not known or a field is missing or wrong, and
/// InfeasibleError for types that no plan comes near. What else a plan cannot say is left to the caller.
ImportedModel import_model(const std::string& path, std::int64_t sequence = 0);

/// One problem for every feature that is refused.
std::vector<Problem> refusals(const ImportedModel& model);

}  // namespace tandem::huggingface
