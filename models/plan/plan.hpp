#pragma once
// The plan: the model, its split over ranks, its settings and its cluster. An immutable value. Parsing: plan_parse.cpp.

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "models/base/error.hpp"
#include "models/plan/cluster_spec.hpp"
#include "models/plan/model_spec.hpp"
#include "models/plan/parallel_spec.hpp"
#include "models/plan/stack_facts.hpp"
#include "models/plan/training_spec.hpp"

namespace tandem {

/// The name of the stack for Tandem's own runtime.
inline constexpr std::string_view kOwnStack = "tandem";

/// The framework, at a date, whose behaviour the plan follows.
struct PlanStack {
  std::string name{kOwnStack};
  Month as_of;                           ///< date of the framework's code
  bool refuses = false;                  ///< its rules refuse plans; else broken rules become notes
  StackFacts facts;                      ///< its rules resolved for this plan (resolve_stack)
};

/// A stack as the command line names it: "megatron-core" or "megatron-core@2024-07".
struct StackChoice {
  std::string name;
  std::optional<Month> as_of;
};
/// Parses a StackChoice. Throws ConfigError if the text has another form.
StackChoice parse_stack_choice(const std::string& text);

/// Returns the device generation of a cluster preset, given by name or path. Empty if unknown.
using GenerationOf = std::function<std::string(const std::string& preset)>;

/// Inputs of parsing other than the plan file.
struct PlanContext {
  GenerationOf generation;
  std::optional<StackChoice> stack = std::nullopt;  ///< replaces the file's stack
};

/// A validated plan. Every default is filled in; no field is "unset" any more.
struct Plan {
  std::string name;
  std::string notes;
  std::string file;                      ///< where it was read from, for messages
  ModelSpec model;
  ParallelSpec parallel;
  TrainingSpec training;
  ClusterSpec cluster;
  PlanStack stack;
  std::vector<std::string> ineffective;  ///< "field changes nothing: why", for fields that the file gives

  // ---- derived, all exact (plan_derived.cpp) ----
  std::int64_t world_size() const;               ///< ranks
  /// Whether a forward and a backward pass run at the same time, so that experts' rows travel during computation.
  bool runs_pairs() const { return parallel.overlap_experts && model.moe.num_experts > 0 && parallel.expert > 1; }
  /// Whether a token travels to its experts once per rank, not once per expert.
  bool sends_copies() const {
    return parallel.token_dispatcher == TokenDispatcher::deepep && model.moe.num_experts > 0 && parallel.expert > 1;
  }
  std::int64_t micro_batches() const;            ///< per pipeline and step: global / (micro x data)
  std::int64_t micro_batch_tokens() const;       ///< micro_batch_size x seq_length
  std::int64_t global_batch_tokens() const;
  std::int64_t padded_vocab_size() const;
  /// Number of masked positions in a sequence (BERT): 15 %, rounded, at least one (arXiv 1810.04805 section 3.1).
  std::int64_t masked_positions() const;
  /// Number of targets in the global batch, the divisor of the loss: all
  /// tokens, BERT's masked positions, or the targets of T5's decoder.
  std::int64_t loss_targets() const;
  /// Tokens of the data per sequence, without the one that is only
  /// a target. In T5 the decoder's tokens follow the encoder's.
  std::int64_t sequence_tokens() const;
  /// Positions of a sequence in global layer `layer`. T5's decoder layers have another length.
  std::int64_t layer_seq_length(std::int64_t layer) const;
  /// Rows that an expert takes from one rank's tokens (its context and, under sequence parallelism, tensor share
  /// of a micro-batch): capacity_factor x tokens x experts_per_token / num_experts, rounded up; 0: dropless.
  std::int64_t expert_capacity() const;
  /// Layers of each stage: `pipeline` entries (x virtual_pipeline chunks, in the order of a micro-batch: stage_of_part).
  /// Their sum is model.total_layers(). With layers + 2 chunks the first and last are 0: only embedding, only head.
  std::vector<std::int64_t> layers_per_stage() const;
};

/// Parameters by part, without vocabulary padding (as published). `total_padded` is with padding (as stored).
struct ParameterCount {
  // Layers with full attention if there are any, else with the first layer's mixer.
  std::int64_t per_layer = 0;        ///< with an MLP, even in models with experts (T5: of the encoder)
  std::int64_t per_decoder_layer = 0;///< T5: self attention, cross attention and MLP
  std::int64_t per_moe_layer = 0;    ///< a layer with all experts and the router; 0 in dense models
  std::int64_t embedding = 0;        ///< token + position (+ token type) + embedding norm
  std::int64_t head = 0;             ///< final norm, untied output matrix, BERT's pooler and two heads
  std::int64_t mtp = 0;              ///< MTP modules, without the shared embedding and head
  std::int64_t total = 0;
  std::int64_t total_padded = 0;
};
ParameterCount count_parameters(const ModelSpec& model, std::int64_t padded_vocab_size);

/// Reads, completes and validates a plan file. Throws ConfigError (exit 3) with *all* problems of syntax, type, unit, key and
/// value, and InfeasibleError (exit 4) with all reasons why a valid file cannot run (divisibility, stack rules). Plans that cannot
/// be lowered yet are loaded; require_lowerable() refuses them. `topology/plan_reader.hpp` adds the presets' device generations.
Plan load_plan(const std::string& path, const PlanContext& context);

/// Likewise for text. `file` is only used in messages.
Plan parse_plan(std::string_view text, const std::string& file, const PlanContext& context);

/// The completed plan as JSON text, every default printed, loadable again.
std::string to_json(const Plan& plan, int indent = 2);

/// Throws InfeasibleError naming every field that this version parses but cannot lower.
void require_lowerable(const Plan& plan);

/// Reads a model preset (models/presets/<name>.json), completed as in a plan with one rank. Throws ConfigError.
ModelSpec load_model(const std::string& preset);

/// JSON Schema (draft-07) of a plan file, generated from the parser's own definitions.
std::string plan_json_schema();

}  // namespace tandem
