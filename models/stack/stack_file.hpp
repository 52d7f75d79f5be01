#pragma once
// A file of models/stacks, read once: the rules of one framework, each with the months between which it holds.
// Private to models/stack; other code reads what the rules come to for a plan (models/plan/stack_facts.hpp).

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "models/base/json.hpp"
#include "models/plan/stack_facts.hpp"
#include "models/stack/stack_checkpoint.hpp"
#include "models/stack/stack_splits.hpp"

namespace tandem {

class Conditions;
struct Plan;

/// Fields that every entry in a stack's lists has.
struct StackEntry {
  std::optional<Month> since, until;           ///< holds for since <= as_of < until
  std::shared_ptr<const nlohmann::json> when;  ///< conditions, an object
  std::shared_ptr<const Conditions> conditions;
  std::string source;
  bool verified = false;                       ///< whether the source was read

  bool in_time(Month as_of) const;
  bool holds(Month as_of, const Plan& plan) const;
};

struct DefaultEntry : StackEntry {
  std::string field;
  std::shared_ptr<const nlohmann::json> value;
  std::string times;  ///< a field or derived value that multiplies an integer; empty: none
  /// What the field of this plan becomes.
  nlohmann::json value_for(const Plan& plan) const;
};
struct FusionEntry : StackEntry {
  std::string set;
};
struct TransfersEntry : StackEntry {
  std::vector<std::string> overlap;  ///< schedules under which stages compute while they send
  bool scatter = false;              ///< tensor ranks send a share each
};
struct CommunicatorsEntry : StackEntry {
  Communicators of;
};
struct KeptOutputsEntry : StackEntry {
  std::int64_t count = 0;
};
struct BucketsEntry : StackEntry {
  std::int64_t elements = 0;
};
struct PiecesEntry : StackEntry {
  double exposed = 0;
};
struct NarrowEntry : StackEntry {
  NarrowProducts of;
};
struct MoreOperations : StackEntry {
  std::map<std::string, std::int64_t, std::less<>> tasks, per_parameter;
};
struct HostEntry : StackEntry {
  HostOperations of;
  std::vector<MoreOperations> more;
};
struct GraphsEntry : StackEntry {
  GraphLaunches of;
};
struct WideEntry : StackEntry {
  WideTensors of;
};
struct CheckpointEntry : StackEntry {
  StackCheckpoint of;
};
struct SplitsEntry : StackEntry {
  StackSplits of;
};
struct ModulesEntry : StackEntry {
  std::vector<std::string> modules;  ///< values of training.recompute_modules
};
/// What users of the plan should know.
struct TextEntry : StackEntry {
  std::string text;
};
/// A refusal: the plan's field must obey one constraint.
struct RuleEntry : StackEntry {
  std::string field;
  std::shared_ptr<const nlohmann::json> rule;  ///< the entry as it stands, with its constraint
  std::shared_ptr<const Conditions> obeyed;    ///< that the field obeys the constraint
  std::string reason, remedy;
};

/// Lists keep the order of the file. Entries of the base stack follow.
struct StackFile {
  std::string name, path;
  Month read_until;
  std::string read_commit;
  std::vector<std::string> default_on;  ///< device generations whose plans use this stack by default
  std::vector<DefaultEntry> defaults;
  std::vector<FusionEntry> fusion;
  std::vector<TransfersEntry> transfers;
  std::vector<CommunicatorsEntry> communicators;
  std::vector<KeptOutputsEntry> kept_outputs;
  std::vector<BucketsEntry> update_buckets;
  std::vector<PiecesEntry> collectives_in_pieces;
  std::vector<NarrowEntry> narrow_products;
  std::vector<HostEntry> host_operations;
  std::vector<GraphsEntry> cuda_graphs;
  std::vector<WideEntry> wide_tensors;
  std::vector<CheckpointEntry> checkpoints;
  std::vector<SplitsEntry> stage_layers;
  std::vector<ModulesEntry> recompute_modules;
  std::vector<DefaultEntry> switched_on;
  std::vector<StackEntry> whole_between_micro_batches, buckets_in_first_chunk, aligned_reductions, bucket_copies, caching_allocator,
      arena, remainder_last, ends_are_layers, weighted_experts, weighted_expert_bias, rows_by_element;
  std::vector<TextEntry> told;
  std::vector<RuleEntry> rules;
  bool stood_in = false;                ///< own host operations are left out and another stack's are used
};

/// The first entry of a list that holds; null if none does.
template <class Entry>
const Entry* first_that_holds(const std::vector<Entry>& list, Month as_of, const Plan& plan) {
  for (const Entry& entry : list)
    if (entry.holds(as_of, plan)) return &entry;
  return nullptr;
}

/// Reads a stack and its base by name, without entries whose evidence is left out (models/base/left_out). Parses
/// again only if a file's text has changed since this thread read it and files are not held (models/base/held_files).
/// Throws ConfigError if the stack does not exist or a file does not have the form of models/stacks/README.md.
std::shared_ptr<const StackFile> load_stack(const std::string& name);

/// Whether there is a stack of that name.
bool is_stack(const std::string& name);

}  // namespace tandem
