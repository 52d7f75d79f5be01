#include "models/stack/resolve.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "models/base/text.hpp"
#include "models/fields/plan_fields.hpp"
#include "models/stack/condition.hpp"
#include "models/stack/default_stack.hpp"
#include "models/stack/generation_defaults.hpp"
#include "models/stack/gradient_buckets.hpp"
#include "models/stack/stack_file.hpp"

namespace tandem {
namespace {

using nlohmann::json;

constexpr const char* kLastEntry = "end the list with an entry without \"when\", since and until";

bool is_known(const Plan& plan) { return is_stack(plan.stack.name); }

template <class Entry>
const Entry* entry_for(const std::vector<Entry>& list, const Plan& plan) {
  return first_that_holds(list, plan.stack.as_of, plan);
}

std::string values_text(const json& list) {
  std::vector<std::string> words;
  for (const json& v : list) words.push_back(v.is_string() ? v.get<std::string>() : v.dump());
  return list_text(words, "or");
}

/// "use 1" where the largest allowed value is also the smallest the field can have.
std::string at_most(const RuleEntry& rule) {
  const PlanField* field = find_field(rule.field);
  const bool only = field != nullptr && field->schema().value("minimum", json()) == (*rule.rule)["max"];
  return (only ? "use " : "use at most ") + (*rule.rule)["max"].dump();
}

std::string remedy_of(const RuleEntry& entry, const Plan& plan) {
  const json& rule = *entry.rule;
  if (!entry.remedy.empty()) return entry.remedy;
  if (rule.contains("allowed")) return "use " + values_text(rule["allowed"]);
  if (rule.contains("except")) return "use anything but " + values_text(rule["except"]);
  if (rule.contains("min")) return "use at least " + rule["min"].dump();
  if (rule.contains("max")) return at_most(entry);
  return "use a multiple of " + std::to_string(divisor(plan, rule["multiple_of"]));
}

bool breaks(const Plan& plan, const RuleEntry& rule, Month as_of) { return rule.holds(as_of, plan) && !rule.obeyed->hold(plan); }

Problem problem_of(const Plan& plan, const RuleEntry& rule, const std::string& stack) {
  const std::string field = blamed_field(rule.field);
  return {plan.file, field, value_text(value_of(plan, field)),
          "refused by stack " + stack + ": " + rule.reason + " (" + rule.source + ")", remedy_of(rule, plan)};
}

void add(HostOperations& all, const MoreOperations& more) {
  for (const auto& [kind, n] : more.tasks) all.tasks.try_emplace(kind, all.otherwise).first->second += n;
  for (const auto& [kind, n] : more.per_parameter) all.per_parameter[kind] += n;
}

HostOperations host_operations(const StackFile& stack, const Plan& plan) {
  const HostEntry* entry = entry_for(stack.host_operations, plan);
  if (entry == nullptr) return {};
  HostOperations all = entry->of;
  for (const MoreOperations& more : entry->more)
    if (more.holds(plan.stack.as_of, plan)) add(all, more);
  return all;
}

std::vector<Communicators> communicators(const StackFile& stack, const Plan& plan) {
  std::vector<Communicators> out;
  for (const CommunicatorsEntry& entry : stack.communicators)
    if (entry.holds(plan.stack.as_of, plan)) out.push_back(entry.of);
  return out;
}

/// Offloaded weights arrive for every micro-batch, so nothing is whole between micro-batches.
bool is_whole_between(const StackFile& stack, const Plan& plan) {
  const ParallelSpec& q = plan.parallel;
  const bool asked = q.pipeline > 1 && q.zero_stage > 1 && !q.offload.parameters;
  return asked && entry_for(stack.whole_between_micro_batches, plan) != nullptr;
}

/// Remembers which entry gave a field its value, for `explain`.
void remember(Plan& plan, const std::string& field, const StackEntry& entry) {
  plan.stack.facts.defaults.push_back({field, entry.source, entry.since.value_or(Month{}), entry.until.value_or(Month{})});
}

bool names_its_stack(const Plan& plan) {
  const auto& chosen = plan.stack.facts.defaults;
  return std::none_of(chosen.begin(), chosen.end(), [](const StackDefault& d) { return d.field == "stack.name"; });
}

void note_rules(Plan& plan) {
  if (plan.stack.refuses) return;
  const std::string why = names_its_stack(plan) ? "stack.rules is note" : "the plan names no stack";
  for (const Problem& p : stack_problems(plan, plan.stack.name, plan.stack.as_of))
    plan.stack.facts.notes.push_back(p.field + ": " + p.reason + "; " + why + ", so it is simulated all the same");
}

/// Where the stack's fusion set depends on the precision, plans of two precisions differ in more than their types.
void note_fusion(Plan& plan, const StackFile& stack) {
  const auto& chosen = plan.stack.facts.defaults;
  const bool is_default = std::any_of(chosen.begin(), chosen.end(), [](const StackDefault& d) { return d.field == "training.fusion"; });
  if (!is_default || plan.training.precision == "bf16") return;
  Plan wide = plan;
  wide.training.precision = "bf16";
  const FusionEntry *own = entry_for(stack.fusion, plan), *other = entry_for(stack.fusion, wide);
  if (own == nullptr || other == nullptr || own->set == other->set) return;
  plan.stack.facts.notes.push_back("training.fusion: stack " + plan.stack.name + " has " + own->set + " in " + plan.training.precision + " and " +
                                   other->set + " in bf16; name one to compare precisions alone");
}

void note_date(Plan& plan) {
  const StackFacts& facts = plan.stack.facts;
  if (plan.stack.as_of <= facts.read_until) return;
  plan.stack.facts.notes.push_back("stack.as_of " + text_of(plan.stack.as_of) + " is later than the code that the rules of stack " +
                                   plan.stack.name + " were read from (" + text_of(facts.read_until) + ", " + facts.read_commit + ")");
}

void note_generation(Plan& plan, const StackFile& stack) {
  if (!plan.cluster.generation.empty() || plan.cluster.preset.empty()) return;
  const std::vector<std::string> left_out = generation_defaults(plan, stack);
  if (left_out.empty()) return;
  plan.stack.facts.notes.push_back("cluster.preset: its device names no generation, so what stack " + plan.stack.name +
                                   " sets on some generations is left out: " + list_text(left_out) +
                                   "; set these fields, or give the device a generation, such as \"generation\": \"hopper\"");
}

/// Notes of stack files that cannot be read, where the plan's stack was searched among all of them.
void note_broken_files(Plan& plan) {
  if (names_its_stack(plan)) return;
  const std::vector<std::string> broken = default_stack(plan.cluster.generation).notes;
  plan.stack.facts.notes.insert(plan.stack.facts.notes.end(), broken.begin(), broken.end());
}

}  // namespace

void choose_stack(Plan& plan, const Given& given) {
  const bool named = given.contains("stack.name");
  if (!named) plan.stack.name = default_stack(plan.cluster.generation).name;
  if (!given.contains("stack.rules")) plan.stack.refuses = named;
  if (is_known(plan) && !given.contains("stack.as_of")) plan.stack.as_of = load_stack(plan.stack.name)->read_until;
}

Given fill_stack_defaults(Plan& plan, const Given& given) {
  Given known = given;
  plan.stack.facts.defaults.clear();
  if (!is_known(plan)) return known;  // refused by its own field
  const auto stack = load_stack(plan.stack.name);
  for (const DefaultEntry& entry : stack->defaults) {
    if (known.contains(entry.field) || !entry.holds(plan.stack.as_of, plan)) continue;
    find_field(entry.field)->read(entry.value_for(plan), plan);
    known.insert(entry.field);
    remember(plan, entry.field, entry);
  }
  return known;
}

std::string stack_fusion(const Plan& plan) {
  const auto stack = load_stack(plan.stack.name);
  if (const FusionEntry* entry = entry_for(stack->fusion, plan)) return entry->set;
  throw ConfigError(Problem{stack->path, "fusion", "", "has no entry for this plan", kLastEntry});
}

StackTransfers stack_transfers(const Plan& plan) {
  if (!is_known(plan)) return {};
  const auto stack = load_stack(plan.stack.name);
  const TransfersEntry* entry = entry_for(stack->transfers, plan);
  if (entry == nullptr)
    throw ConfigError(Problem{stack->path, "transfers", "", "has no entry for this plan", kLastEntry});
  const auto& overlap = entry->overlap;
  return {std::find(overlap.begin(), overlap.end(), name(plan.parallel.schedule)) != overlap.end(), entry->scatter};
}

bool stack_remainder_last(const Plan& plan) {
  return is_known(plan) && entry_for(load_stack(plan.stack.name)->remainder_last, plan) != nullptr;
}

bool stack_ends_are_layers(const Plan& plan) {
  return is_known(plan) && entry_for(load_stack(plan.stack.name)->ends_are_layers, plan) != nullptr;
}

void remember_choices(Plan& plan, const Given& given) {
  if (!is_known(plan)) return;
  const auto stack = load_stack(plan.stack.name);
  if (!given.contains("stack.name"))
    plan.stack.facts.defaults.push_back({"stack.name", "the plan names none; default_on of models/stacks has this one for its device", {}, {}});
  const FusionEntry* fusion = entry_for(stack->fusion, plan);
  if (fusion != nullptr && !given.contains("training.fusion")) remember(plan, "training.fusion", *fusion);
  const TransfersEntry* transfers = plan.parallel.pipeline > 1 ? entry_for(stack->transfers, plan) : nullptr;
  for (const char* field : {"parallel.overlap_p2p", "parallel.scatter_gather_tensors_in_pipeline"})
    if (transfers != nullptr && !given.contains(field)) remember(plan, field, *transfers);
}

std::set<std::string> condition_fields(const std::string& stack) {
  std::set<std::string> fields;
  const auto add_when = [&](const StackEntry& entry) {
    if (entry.when == nullptr) return;
    for (const auto& [field, condition] : entry.when->items()) fields.insert(field);
  };
  const auto add_times = [&](const DefaultEntry& entry) {
    if (!entry.times.empty()) fields.insert(entry.times);
  };
  const auto add_list = [&](const auto& list) { std::for_each(list.begin(), list.end(), add_when); };
  if (!is_stack(stack)) return fields;
  const auto file = load_stack(stack);
  std::for_each(file->defaults.begin(), file->defaults.end(), add_times);
  add_list(file->defaults), add_list(file->fusion), add_list(file->transfers), add_list(file->communicators);
  add_list(file->narrow_products), add_list(file->host_operations), add_list(file->cuda_graphs), add_list(file->wide_tensors);
  add_list(file->whole_between_micro_batches), add_list(file->buckets_in_first_chunk), add_list(file->bucket_copies);
  add_list(file->aligned_reductions);
  add_list(file->caching_allocator), add_list(file->arena);
  add_list(file->remainder_last), add_list(file->ends_are_layers), add_list(file->kept_outputs);
  add_list(file->update_buckets), add_list(file->weighted_experts), add_list(file->rows_by_element);
  add_list(file->weighted_expert_bias);
  add_list(file->collectives_in_pieces);
  for (const HostEntry& entry : file->host_operations) add_list(entry.more);
  for (const TransfersEntry& entry : file->transfers)
    if (!entry.overlap.empty()) fields.insert("parallel.schedule");
  return fields;
}

void resolve_stack(Plan& plan) {
  StackFacts& facts = plan.stack.facts;
  const std::vector<StackDefault> defaults = std::move(facts.defaults);
  facts = {};
  facts.defaults = defaults;
  if (!is_known(plan)) return;  // refused by its own field
  const auto stack = load_stack(plan.stack.name);
  facts.read_until = stack->read_until;
  facts.read_commit = stack->read_commit;
  facts.host_operations = host_operations(*stack, plan);
  facts.communicators = communicators(*stack, plan);
  const NarrowEntry* narrow = bits(plan.training.dtypes.compute) > 8 ? nullptr : entry_for(stack->narrow_products, plan);
  if (narrow != nullptr) facts.narrow_products = narrow->of;
  if (const GraphsEntry* graphs = entry_for(stack->cuda_graphs, plan)) facts.graph_launches = graphs->of;
  if (const WideEntry* wide = entry_for(stack->wide_tensors, plan)) facts.wide_tensors = wide->of;
  facts.whole_between_micro_batches = is_whole_between(*stack, plan);
  facts.buckets_in_first_chunk = entry_for(stack->buckets_in_first_chunk, plan) != nullptr;
  facts.caching_allocator = entry_for(stack->caching_allocator, plan) != nullptr;
  if (const KeptOutputsEntry* kept = entry_for(stack->kept_outputs, plan)) facts.kept_outputs = kept->count;
  const BucketsEntry* buckets = entry_for(stack->update_buckets, plan);
  FusionSet& set = plan.training.fusion;  // what a stack says, whatever set the plan names
  set.collective_elements = buckets == nullptr ? 0 : buckets->elements;
  set.weighted_activations = entry_for(stack->weighted_experts, plan) != nullptr;
  set.weighted_expert_bias = entry_for(stack->weighted_expert_bias, plan) != nullptr;
  set.rows_by_element = entry_for(stack->rows_by_element, plan) != nullptr;
  if (const PiecesEntry* pieces = entry_for(stack->collectives_in_pieces, plan)) facts.exposed_pieces = pieces->exposed;
  facts.arena = entry_for(stack->arena, plan) != nullptr;
  note_rules(plan);
  note_fusion(plan, *stack);
  for (const TextEntry& entry : stack->told)
    if (entry.holds(plan.stack.as_of, plan)) facts.notes.push_back(entry.text);
  if (gradient_buckets(plan).copies)
    facts.notes.push_back("PyTorch's DDP copies gradients into buckets and keeps them. Memory counts these copies. With "
                          "gradient_as_bucket_view=True, a rank needs as many bytes less as its gradients have");
  if (plan.training.cuda_graphs != CudaGraphs::none && !facts.graph_launches.said())
    facts.notes.push_back("training.cuda_graphs: stack " + plan.stack.name + " says nothing of CUDA graphs; a launch is taken for one host operation");
  note_date(plan);
  note_generation(plan, *stack);
  note_broken_files(plan);
}

std::vector<Problem> stack_problems(const Plan& plan, const std::string& stack, std::optional<Month> as_of) {
  std::vector<Problem> problems;
  const auto file = load_stack(stack);
  for (const RuleEntry& rule : file->rules)
    if (breaks(plan, rule, as_of.value_or(file->read_until))) problems.push_back(problem_of(plan, rule, stack));
  return problems;
}

bool breaks_stack_rule(const Plan& plan) {
  const auto file = load_stack(plan.stack.name);
  return std::any_of(file->rules.begin(), file->rules.end(), [&](const RuleEntry& r) { return breaks(plan, r, plan.stack.as_of); });
}

std::optional<Problem> uncaptured(const Plan& plan) {
  const bool captures = plan.training.cuda_graphs != CudaGraphs::none;
  if (!captures || plan.stack.facts.graph_launches.said() || !plan.stack.refuses) return std::nullopt;
  return Problem{plan.file, "training.cuda_graphs", std::string(name(plan.training.cuda_graphs)),
                 "models/stacks has nothing of CUDA graphs in " + plan.stack.name, "use none, or stack megatron-core"};
}

std::optional<Problem> unkept_rows(const Plan& plan) {
  if (!plan.training.fusion.weighted_activations) return std::nullopt;
  return Problem{plan.file, "stack", plan.stack.name, "it keeps no rows that experts give back, from which the runtime computes gradients",
                 "use stack " + std::string(kOwnStack)};
}

}  // namespace tandem
