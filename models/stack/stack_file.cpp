#include "models/stack/stack_file.hpp"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "models/base/held_files.hpp"
#include "models/base/left_out.hpp"
#include "models/base/presets.hpp"
#include "models/base/text.hpp"
#include "models/ops/op.hpp"
#include "models/fields/plan_fields.hpp"
#include "models/stack/condition.hpp"
#include "models/fields/fusion_file.hpp"

namespace tandem {
namespace {

using nlohmann::json;
using Keys = std::set<std::string_view>;
using Counts = std::map<std::string, std::int64_t, std::less<>>;

constexpr std::string_view kFolder = "models/stacks";
constexpr std::int64_t kMostOperations = 1000;    ///< of a task or a graph launch
constexpr std::int64_t kMostCommunicators = 100;  ///< communicators of a group
constexpr std::int64_t kMostOutputs = 1000;       ///< micro-batches whose logits are kept
constexpr std::int64_t kMostElements = 1000000000000;  ///< elements of a collective
constexpr std::int64_t kMostCopies = 2, kMostShare = 65536;
constexpr int kMostBases = 4;
constexpr std::array kNamedGroups{Group::tensor, Group::data, Group::pipeline, Group::model, Group::embedding, Group::world};

/// One list of a file, or one of its entries, for messages.
struct List {
  const std::string& path;
  const char* key;
  std::optional<std::size_t> entry = {};  ///< counted from 0

  [[noreturn]] void refuse(const json& value, const std::string& reason, const std::string& remedy = "see models/stacks/README.md") const {
    const std::string place = entry ? std::string(key) + "[" + std::to_string(*entry) + "]" : key;
    throw ConfigError(Problem{path, place, value_text(value), reason, remedy});
  }
  /// Refuses a key that is not among the known ones. A newer version's data may have it.
  [[noreturn]] void refuse_key(const std::string& found, const json& value, const std::string& reason,
                               const std::vector<std::string>& known) const {
    const std::string meant = nearest(found, known);
    refuse(value, reason, (meant.empty() ? "see models/stacks/README.md; or " : "did you mean \"" + meant + "\"? If not, ") +
                              std::string("this program is older than the file: use the version of Tandem that it was written for"));
  }
};

std::vector<std::string> texts_of(const std::initializer_list<const Keys*>& sets) {
  std::vector<std::string> out;
  for (const Keys* keys : sets) out.insert(out.end(), keys->begin(), keys->end());
  return out;
}

std::optional<Month> month_at(const json& entry, const char* key, const List& list) {
  if (!entry.contains(key)) return std::nullopt;
  const auto month = entry[key].is_string() ? parse_month(entry[key].get<std::string>()) : std::nullopt;
  if (!month) list.refuse(entry[key], std::string(key) + " is no month", "write it as \"2024-07\"");
  return month;
}

/// Reads the common fields of an entry. It must have all `needed` keys and may have `optional` ones.
void read_frame(const json& entry, const Keys& needed, const Keys& optional, const List& list, StackEntry& out) {
  static const Keys kFrame{"since", "until", "when", "source", "verified"};
  if (!entry.is_object()) list.refuse(entry, "an entry must be an object");
  for (const std::string_view key : needed)
    if (!entry.contains(key)) list.refuse(entry, "an entry lacks " + std::string(key), "add \"" + std::string(key) + "\"");
  for (const auto& [key, value] : entry.items())
    if (!needed.contains(key) && !optional.contains(key) && !kFrame.contains(key))
      list.refuse_key(key, key, "is no key of an entry", texts_of({&needed, &optional, &kFrame}));
  if (!entry.contains("source")) list.refuse(entry, "an entry lacks source", "add \"source\": the code or the release notes that say so");
  if (!entry.contains("verified") && !optional.contains("verified"))
    list.refuse(entry, "an entry lacks verified", "add \"verified\": true if its source was read, else false");
  if (!entry["source"].is_string() || entry["source"].get<std::string>().empty()) list.refuse(entry["source"], "source must be a string");
  out.verified = entry.value("verified", json(false)) == true;
  if (entry.contains("verified") && !entry["verified"].is_boolean()) list.refuse(entry["verified"], "verified is neither true nor false");
  out.since = month_at(entry, "since", list);
  out.until = month_at(entry, "until", list);
  if (out.since && out.until && *out.since >= *out.until) list.refuse(entry, "until must be behind since");
  out.when = std::make_shared<const json>(entry.value("when", json::object()));
  if (const std::string wrong = condition_defect(*out.when); !wrong.empty()) list.refuse(*out.when, wrong);
  out.conditions = std::make_shared<const Conditions>(out.when);
  out.source = entry["source"];
}

std::int64_t whole(const json& value, std::int64_t least, std::int64_t most, const std::string& what, const List& list) {
  if (!value.is_number_integer() || value.get<std::int64_t>() < least || value.get<std::int64_t>() > most)
    list.refuse(value, what + " is no whole number from " + std::to_string(least) + " to " + std::to_string(most));
  return value.get<std::int64_t>();
}

bool flag(const json& value, const std::string& what, const List& list) {
  if (!value.is_boolean()) list.refuse(value, what + " is neither true nor false");
  return value.get<bool>();
}

void read(const json& entry, const List& list, StackEntry& out) { read_frame(entry, {}, {}, list, out); }

/// The field of the plan that an entry gives a value.
const PlanField& field_of(const json& entry, const List& list) {
  const json& path = entry["field"];
  if (!path.is_string()) list.refuse(path, "field must be a text", "write for example \"training.flash_attention\"");
  const PlanField* field = find_field(path.get<std::string>());
  if (field != nullptr && !field->required) return *field;
  if (field != nullptr) list.refuse(path, "every plan gives this field, so it has no default", "leave the entry out");
  std::vector<std::string> known;
  for (const PlanField& f : plan_fields()) known.push_back(f.path);
  const std::string meant = nearest(path.get<std::string>(), known);
  list.refuse(path, "is no field of a plan", meant.empty() ? "tandem schema lists the fields" : "did you mean \"" + meant + "\"?");
}

void read(const json& entry, const List& list, DefaultEntry& out) {
  read_frame(entry, {"field", "value"}, {"times"}, list, out);
  const PlanField& field = field_of(entry, list);
  Plan scratch;
  if (const auto refusal = field.read(entry["value"], scratch)) list.refuse(entry["value"], "the value " + refusal->reason);
  out.field = field.path;
  out.value = std::make_shared<const json>(entry["value"]);
  if (!entry.contains("times")) return;
  if (!entry["value"].is_number_integer()) list.refuse(entry["value"], "times is for integers");
  if (!entry["times"].is_string() || !is_rule_field(entry["times"])) list.refuse(entry["times"], "times needs a field of the plan");
  out.times = entry["times"];
}

void read(const json& entry, const List& list, FusionEntry& out) {
  read_frame(entry, {"set"}, {}, list, out);
  if (!entry["set"].is_string()) list.refuse(entry["set"], "set must be a string");
  out.set = entry["set"];
  if (find_preset("models/stacks/fusions", out.set).empty())
    list.refuse(entry["set"], "is no fusion set", "use " + list_text(fusion_set_names(), "or"));
}

void read(const json& entry, const List& list, TransfersEntry& out) {
  read_frame(entry, {"overlap", "scatter"}, {}, list, out);
  const json& overlap = entry["overlap"];
  const bool texts = overlap.is_array() && std::all_of(overlap.begin(), overlap.end(), [](const json& s) { return s.is_string(); });
  if (!texts) list.refuse(overlap, "overlap must be a list of schedules");
  out.overlap = overlap.get<std::vector<std::string>>();
  out.scatter = flag(entry["scatter"], "scatter", list);
}

void read(const json& entry, const List& list, CommunicatorsEntry& out) {
  read_frame(entry, {"group", "count"}, {}, list, out);
  const auto* const group = std::find_if(kNamedGroups.begin(), kNamedGroups.end(),
                                         [&](Group g) { return entry["group"] == std::string(name(g)); });
  if (group == kNamedGroups.end()) list.refuse(entry["group"], "is none of tensor, data, pipeline, model, embedding and world");
  out.of = {*group, whole(entry["count"], 1, kMostCommunicators, "count", list)};
}

void read(const json& entry, const List& list, KeptOutputsEntry& out) {
  read_frame(entry, {"count"}, {}, list, out);
  out.count = whole(entry["count"], 1, kMostOutputs, "count", list);
}

void read(const json& entry, const List& list, BucketsEntry& out) {
  read_frame(entry, {"elements"}, {}, list, out);
  out.elements = whole(entry["elements"], 1, kMostElements, "elements", list);
}

void read(const json& entry, const List& list, PiecesEntry& out) {
  read_frame(entry, {"exposed"}, {}, list, out);
  if (!entry["exposed"].is_number() || entry["exposed"] < 0 || entry["exposed"] > 1) list.refuse(entry["exposed"], "exposed is no number from 0 to 1");
  out.exposed = entry["exposed"];
}

void read(const json& entry, const List& list, NarrowEntry& out) {
  read_frame(entry, {"inputs", "attention_output", "weight_copies", "scale_block"}, {"weight_scale_block"}, list, out);
  const json& output = entry["attention_output"];
  if (output != "wide" && output != "both") list.refuse(output, "attention_output is neither wide nor both");
  out.of.inputs = flag(entry["inputs"], "inputs", list);
  out.of.attention_output = output == "both" ? AttentionOutput::both : AttentionOutput::wide;
  out.of.weight_copies = whole(entry["weight_copies"], 0, kMostCopies, "weight_copies", list);
  out.of.scale_block = whole(entry["scale_block"], 0, kMostShare, "scale_block", list);
  out.of.weight_scale_block = whole(entry.value("weight_scale_block", entry["scale_block"]), 0, kMostShare, "weight_scale_block", list);
  if (!out.of.inputs && output == "both")
    list.refuse(output, "a narrow copy of attention's output is an input in 8 bits, of which there are none");
}

template <std::size_t... kind>
Keys kinds_of(std::index_sequence<kind...>) {
  return {kind_name(Op(std::in_place_index<kind>))...};
}

Counts counts(const json& entry, const char* key, const List& list) {
  static const Keys known = kinds_of(std::make_index_sequence<kOpKinds>());
  Counts out;
  if (!entry.contains(key)) return out;
  if (!entry[key].is_object()) list.refuse(entry[key], std::string(key) + " is no object");
  for (const auto& [kind, value] : entry[key].items()) {
    if (!known.contains(kind)) list.refuse(kind, "is no kind of task");
    out[kind] = whole(value, 1, kMostOperations, kind, list);
  }
  return out;
}

void read(const json& entry, const List& list, HostEntry& out) {
  read_frame(entry, {"otherwise"}, {"tasks", "per_parameter", "update_recorded", "more"}, list, out);
  out.of.otherwise = whole(entry["otherwise"], 1, kMostOperations, "otherwise", list);
  out.of.tasks = counts(entry, "tasks", list);
  out.of.per_parameter = counts(entry, "per_parameter", list);
  out.of.update_recorded = flag(entry.value("update_recorded", json(false)), "update_recorded", list);
  const json more = entry.value("more", json::array());
  if (!more.is_array()) list.refuse(more, "more is no list");
  for (const json& m : more) {
    read_frame(m, {}, {"tasks", "per_parameter"}, list, out.more.emplace_back());
    out.more.back().tasks = counts(m, "tasks", list);
    out.more.back().per_parameter = counts(m, "per_parameter", list);
    if (rests_on_left_out(out.more.back().source)) out.more.pop_back();
  }
}

void read(const json& entry, const List& list, GraphsEntry& out) {
  read_frame(entry, {"layers", "iteration"}, {}, list, out);
  out.of.layers = whole(entry["layers"], 1, kMostOperations, "layers", list);
  out.of.iteration = whole(entry["iteration"], 1, kMostOperations, "iteration", list);
}

void read(const json& entry, const List& list, WideEntry& out) {
  read_frame(entry, {"statistics", "loss_sums", "router", "parameter_gradient"}, {"chunk_gradients"}, list, out);
  out.of.statistics = flag(entry["statistics"], "statistics", list);
  out.of.loss_sums = flag(entry["loss_sums"], "loss_sums", list);
  out.of.router = flag(entry["router"], "router", list);
  out.of.chunk_gradients = flag(entry.value("chunk_gradients", json(false)), "chunk_gradients", list);
  out.of.parameter_gradient = flag(entry["parameter_gradient"], "parameter_gradient", list);
}

void read(const json& entry, const List& list, CheckpointEntry& out) {
  read_frame(entry, {}, {"floats", "narrow_weights"}, list, out);
  if (!entry.contains("floats") && !entry.contains("narrow_weights")) list.refuse(entry, "an entry needs floats or narrow_weights");
  out.of.narrow_weights = flag(entry.value("narrow_weights", json(true)), "narrow_weights", list);
  if (!entry.contains("floats")) return;
  out.of.floats = entry["floats"].is_string() ? dtype_from_name(entry["floats"].get<std::string>()) : std::nullopt;
  if (!out.of.floats) list.refuse(entry["floats"], "floats is no type", "write it as \"fp32\"");
}

void read(const json& entry, const List& list, SplitsEntry& out) {
  read_frame(entry, {"choice"}, {"empty_ends"}, list, out);
  const json& choice = entry["choice"];
  if (choice != "none" && choice != "ends" && choice != "any") list.refuse(choice, "choice is none of none, ends and any");
  out.of.choice = choice == "any" ? StageChoice::any : choice == "ends" ? StageChoice::ends : StageChoice::none;
  out.of.empty_ends = flag(entry.value("empty_ends", json(false)), "empty_ends", list);
  if (out.of.empty_ends && choice != "any") list.refuse(choice, "empty_ends needs the choice any");
}

void read(const json& entry, const List& list, ModulesEntry& out) {
  read_frame(entry, {"modules"}, {}, list, out);
  Plan scratch;
  if (const auto refusal = find_field("training.recompute_modules")->read(entry["modules"], scratch))
    list.refuse(entry["modules"], "modules " + refusal->reason, refusal->remedy);
  out.modules = scratch.training.recompute_modules;
}

void read(const json& entry, const List& list, TextEntry& out) {
  read_frame(entry, {"text"}, {}, list, out);
  if (!entry["text"].is_string()) list.refuse(entry["text"], "text must be a text");
  out.text = entry["text"];
}

void read(const json& entry, const List& list, RuleEntry& out) {
  read_frame(entry, {"field", "reason"}, {"remedy", "verified", "allowed", "except", "min", "max", "multiple_of"}, list, out);
  if (!entry["field"].is_string() || !is_rule_field(entry["field"])) list.refuse(entry["field"], "a rule needs a field of the plan");
  if (!entry["reason"].is_string() || !entry.value("remedy", json("")).is_string()) list.refuse(entry, "reason and remedy must be texts");
  json constraints = json::object();
  for (const auto& [key, value] : entry.items()) {
    if (!is_constraint(key)) continue;
    constraints[key] = value;
    if (const std::string wrong = constraint_defect(key, value); !wrong.empty()) list.refuse(value, wrong);
  }
  if (constraints.size() != 1) list.refuse(entry, "a rule needs one of allowed, except, min, max and multiple_of");
  out.field = entry["field"];
  out.rule = std::make_shared<const json>(entry);
  out.obeyed = std::make_shared<const Conditions>(std::make_shared<const json>(json{{out.field, constraints}}));
  out.reason = entry["reason"];
  out.remedy = entry.value("remedy", "");
}

template <class Entry>
void read_list(const json& file, const std::string& path, const char* key, std::vector<Entry>& out) {
  if (!file.contains(key)) return;
  if (!file[key].is_array()) List{path, key}.refuse(file[key], "is not a list");
  for (std::size_t i = 0; i < file[key].size(); ++i) {
    read(file[key][i], List{path, key, i}, out.emplace_back());
    if (rests_on_left_out(out.back().source)) out.pop_back();
  }
}

/// Calls `each` with the name and the member of every list of a stack's file.
template <class Each>
void for_lists(Each each) {
  each("defaults", &StackFile::defaults);
  each("fusion", &StackFile::fusion);
  each("transfers", &StackFile::transfers);
  each("communicators", &StackFile::communicators);
  each("kept_outputs", &StackFile::kept_outputs);
  each("update_buckets", &StackFile::update_buckets);
  each("collectives_in_pieces", &StackFile::collectives_in_pieces);
  each("narrow_products", &StackFile::narrow_products);
  each("host_operations", &StackFile::host_operations);
  each("cuda_graphs", &StackFile::cuda_graphs);
  each("wide_tensors", &StackFile::wide_tensors);
  each("checkpoints", &StackFile::checkpoints);
  each("recompute_modules", &StackFile::recompute_modules);
  each("stage_layers", &StackFile::stage_layers);
  each("switched_on", &StackFile::switched_on);
  each("whole_between_micro_batches", &StackFile::whole_between_micro_batches);
  each("buckets_in_first_chunk", &StackFile::buckets_in_first_chunk);
  each("aligned_reductions", &StackFile::aligned_reductions);
  each("bucket_copies", &StackFile::bucket_copies);
  each("caching_allocator", &StackFile::caching_allocator);
  each("arena", &StackFile::arena);
  each("weighted_experts", &StackFile::weighted_experts);
  each("weighted_expert_bias", &StackFile::weighted_expert_bias);
  each("rows_by_element", &StackFile::rows_by_element);
  each("remainder_last", &StackFile::remainder_last);
  each("ends_are_layers", &StackFile::ends_are_layers);
  each("told", &StackFile::told);
  each("rules", &StackFile::rules);
}

void check_keys(const json& file, const std::string& path) {
  Keys known{"name", "base", "notes", "read_until", "default_on", "stands_in", "facts"};
  for_lists([&](const char* key, auto) { known.insert(key); });
  if (!file.is_object()) List{path, ""}.refuse(file, "must be an object");
  for (const auto& [key, value] : file.items())
    if (!known.contains(key)) List{path, key.c_str()}.refuse_key(key, value, "is no key of a stack's file", texts_of({&known}));
}

void read_head(const json& file, StackFile& out) {
  if (file.contains("name") && file["name"] != out.name)
    List{out.path, "name"}.refuse(file["name"], "is not the name of the file", "write \"" + out.name + "\", or rename the file");
  const List head{out.path, "read_until"};
  const json read = file.value("read_until", json());
  if (!read.is_object() || !read.contains("as_of") || !read.contains("commit") || !read["commit"].is_string())
    head.refuse(read, "is missing or lacks as_of or commit", R"(write "read_until": {"as_of": "2026-08", "commit": "..."})");
  out.read_until = month_at(read, "as_of", head).value();
  out.read_commit = read["commit"];
  const json on = file.value("default_on", json::array());
  const bool texts = on.is_array() && std::all_of(on.begin(), on.end(), [](const json& s) { return s.is_string(); });
  if (!texts) List{out.path, "default_on"}.refuse(on, "must be a list of generations of devices");
  out.default_on = on.get<std::vector<std::string>>();
  flag(file.value("stands_in", json(false)), "stands_in", List{out.path, "stands_in"});
}

std::string path_of(const std::string& name) {
  const std::string path = find_preset(kFolder, name);
  if (!path.empty()) return path;
  Problem p = unknown_preset(kFolder, name, "stack");
  p.field = "stack";
  throw ConfigError(std::move(p));
}

/// Texts of a stack's file and its bases, by path: the inputs of a parsed stack.
using Texts = std::vector<std::pair<std::string, std::string>>;

StackFile read_file(const std::string& name, int bases_left, Texts& texts) {
  StackFile out;
  out.name = name;
  out.path = path_of(name);
  texts.emplace_back(out.path, read_text(out.path));
  const json file = parse_json(texts.back().second, out.path);
  check_keys(file, out.path);
  read_head(file, out);
  for_lists([&](const char* key, auto member) { read_list(file, out.path, key, out.*member); });
  if (!file.contains("base")) return out;
  if (!file["base"].is_string() || bases_left == 0) List{out.path, "base"}.refuse(file["base"], "is no other stack, or leads back to this one");
  StackFile base = read_file(file["base"], bases_left - 1, texts);
  for_lists([&](const char*, auto member) {
    std::move((base.*member).begin(), (base.*member).end(), std::back_inserter(out.*member));
  });
  return out;
}

template <class Entry>
void append(std::vector<Entry>& list, const std::vector<Entry>& more) {
  list.insert(list.end(), more.begin(), more.end());
}

/// Whether a stack's file says that it holds general rules. One that cannot be read does not.
bool stands_in(const std::string& name) try {
  const json file = read_json(path_of(name));
  return file.is_object() && file.value("stands_in", json()) == true;
} catch (const ConfigError&) {
  return false;
}

/// Fills lists that every plan needs from a substitute stack, in case the own entries rested on left-out sources.
void add_stand_in(StackFile& out, Texts& texts) {
  out.stood_in = out.host_operations.empty();
  for (const std::string& name : preset_names(kFolder)) {
    if (name == out.name || !stands_in(name)) continue;
    const StackFile plain = read_file(name, kMostBases, texts);
    append(out.fusion, plain.fusion), append(out.transfers, plain.transfers), append(out.host_operations, plain.host_operations);
  }
}

/// A stack's name, and the evidence left out when reading it.
std::string key_of(const std::string& name) {
  std::string out = name;
  for (const std::string& evidence : LeftOut::now().evidence) out += " " + evidence;
  return out;
}

struct Parsed {
  Texts texts;
  std::shared_ptr<const StackFile> stack;

  bool is_current(const std::string& path) const {
    const auto same = [](const auto& file) { return read_text(file.first) == file.second; };
    return stack != nullptr && stack->path == path && std::all_of(texts.begin(), texts.end(), same);
  }
};

}  // namespace

bool StackEntry::in_time(Month as_of) const { return (!since || as_of >= *since) && (!until || as_of < *until); }

nlohmann::json DefaultEntry::value_for(const Plan& plan) const {
  const json by = times.empty() ? json() : value_of(plan, times);
  return by.is_number_integer() ? json(value->get<std::int64_t>() * std::max<std::int64_t>(1, by.get<std::int64_t>())) : *value;
}

bool StackEntry::holds(Month as_of, const Plan& plan) const { return in_time(as_of) && conditions->hold(plan); }

namespace {

std::shared_ptr<const StackFile> load_current(const std::string& name) {
  thread_local std::map<std::string, Parsed> parsed;
  Parsed& known = parsed[key_of(name)];
  if (!known.is_current(path_of(name))) {
    Texts texts;
    StackFile stack = read_file(name, kMostBases, texts);
    if (!LeftOut::now().evidence.empty()) add_stand_in(stack, texts);
    known = {std::move(texts), std::make_shared<const StackFile>(std::move(stack))};
  }
  return known.stack;
}

}  // namespace

std::shared_ptr<const StackFile> load_stack(const std::string& name) {
  thread_local HeldAnswers<std::shared_ptr<const StackFile>> held;
  static SharedHeldAnswers<std::shared_ptr<const StackFile>> shared;
  const std::string key = key_of(name);
  return held.get(key, [&] { return shared.get(key, [&] { return load_current(name); }); });
}

bool is_stack(const std::string& name) {
  thread_local HeldAnswers<bool> held;
  return held.get(name, [&] { return !find_preset(kFolder, name).empty(); });
}

}  // namespace tandem
