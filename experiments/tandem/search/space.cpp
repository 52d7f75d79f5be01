#include "experiments/tandem/search/space.hpp"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <set>

#include "experiments/tandem/base/fields.hpp"
#include "models/base/presets.hpp"
#include "models/stack/resolve.hpp"

namespace tandem::search {

namespace {

constexpr std::int64_t kMostCandidates = std::int64_t{1} << 40;

/// Fields about the communication and placement of gradients, weights and states. No computation of a layer depends on them.
constexpr std::array<std::string_view, 16> kExchangeFields{
    "parallel.zero_stage",        "parallel.zero_group",       "parallel.overlap_grad_reduce", "parallel.overlap_param_gather",
    "parallel.bucket_bytes",      "parallel.prefetch_layers",  "parallel.reuse_distance",      "parallel.overlap_p2p",
    "parallel.scatter_gather_tensors_in_pipeline", "parallel.offload.optimizer", "parallel.offload.parameters", "parallel.offload.ratio",
    "parallel.optimizer_sync",    "parallel.fsdp_copies",      "parallel.root_unit",           "training.expandable_segments"};

constexpr std::string_view kModules = "training.recompute_modules";

/// True if no default depends on the axis. Sets of modules change another field only with whole blocks.
bool alone(const Axis& axis) {
  if (axis.field != kModules) return tandem::stands_alone(axis.field);
  const auto whole = [](const AxisValue& v) { return v.text.find("\"block\"") != std::string::npos; };
  return std::none_of(axis.values.begin(), axis.values.end(), whole);
}

bool is_exchange(const std::string& field) {
  return std::find(kExchangeFields.begin(), kExchangeFields.end(), field) != kExchangeFields.end();
}

/// Fields that decide which switches are on: all, or those on which computations of a layer depend.
std::set<std::string> read_by_switches(const StackSwitches& switches, bool of_layers) {
  std::set<std::string> out;
  for (const std::string& field : switches.fields())
    if (!of_layers || !is_exchange(field)) out.merge(switches.read_by(field));
  return out;
}

/// "12, 2 x 16, 14": stages or chunks of 12, 16, 16 and 14 layers.
std::string stages_text(const std::vector<std::int64_t>& split) {
  std::string out;
  for (std::size_t s = 0, next = 0; s < split.size(); s = next) {
    while (next < split.size() && split[next] == split[s]) ++next;
    out += (out.empty() ? "" : ", ") + (next - s > 1 ? std::to_string(next - s) + " x " : "") + std::to_string(split[s]);
  }
  return out;
}

/// The stack of completed candidates.
std::string stack_of(const Question& question) {
  PlanDraft draft = question.draft;
  for (const Axis& axis : question.axes) axis.values.front().set(draft.plan);
  return completed(draft).stack.name;
}

}  // namespace

Space::Space(Question question) : question_(std::move(question)) {
  order_axes(condition_fields(stack_of(question_)));
  count();
}

void Space::order_axes(const std::set<std::string>& asked) {
  std::set<std::string> of_layers = read_by_switches(question_.switches, true);
  of_layers.insert(asked.begin(), asked.end());
  const auto inner = [&](const Axis& a) { return is_exchange(a.field) && of_layers.count(a.field) == 0; };
  const auto middle = std::stable_partition(question_.axes.begin(), question_.axes.end(), [&](const Axis& a) { return !inner(a); });
  outer_ = static_cast<std::size_t>(middle - question_.axes.begin());
  // The ranks that share an expert's matrices follow from the number of data ranks, so from all degrees.
  const bool experts = question_.draft.plan.model.moe.num_experts > 0;
  for (std::size_t a = 0; a < axes().size(); ++a) {
    const std::string& field = axes()[a].field;
    const bool of_stages = field == "parallel.pipeline" || field == "parallel.virtual_pipeline" || field == kSplit;
    of_layers_.push_back(a < outer_ && (!of_stages || experts || of_layers.count(field) != 0));
    const bool again = field == "training.recompute" || field == kModules;
    of_first_computation_.push_back(of_layers_.back() && (!again || of_layers.count(field) != 0));
  }
  for (const Axis& a : question_.axes) asked_.push_back(asked.count(a.field) != 0);
  const std::set<std::string> switching = read_by_switches(question_.switches, false);
  for (const Axis& a : question_.axes) {
    const bool read = asked.count(a.field) != 0 || switching.count(a.field) != 0;
    const bool derived = a.field == "training.micro_batch_size" && asked.count("derived.micro_batches") != 0;
    alone_.push_back(alone(a) && !read && !derived);
  }
}

void Space::count() {
  for (std::size_t a = 0; a < axes().size(); ++a) {
    (a < outer_ ? groups_ : members_) *= static_cast<std::int64_t>(axes()[a].values.size());
    if (size() > kMostCandidates)
      throw ConfigError(Problem{question_.file, "--axis", "", "there are more than " + std::to_string(kMostCandidates) + " candidates", "give fewer values"});
  }
  strides_.assign(axes().size(), 1);
  for (std::size_t a = axes().size(); a-- > 1;) strides_[a - 1] = strides_[a] * static_cast<CandidateId>(axes()[a].values.size());
  numbers_.emplace(question_, strides_, plan(0));
}

Choice Space::choice(CandidateId id) const {
  Choice out;
  choose(id, out);
  return out;
}

void Space::choose(CandidateId id, Choice& out) const {
  out.resize(axes().size());
  for (std::size_t a = 0; a < out.size(); ++a) {
    out[a] = static_cast<std::uint16_t>(id / strides_[a]);
    id %= strides_[a];
  }
}

CandidateId Space::same_layers(CandidateId id) const { return first_in(id, of_layers_); }

CandidateId Space::same_unrepeated_layers(CandidateId id) const { return first_in(id, of_first_computation_); }

/// The candidate with the first value of every axis that is not kept.
CandidateId Space::first_in(CandidateId id, const std::vector<bool>& kept) const {
  for (std::size_t a = 0; a < axes().size(); ++a)
    if (!kept[a]) id -= id / strides_[a] % static_cast<CandidateId>(axes()[a].values.size()) * strides_[a];
  return id;
}

CandidateId Space::first_of(CandidateId id, std::size_t axis) const { return id - choice(id)[axis] * strides_[axis]; }

CandidateId Space::unrepeated(CandidateId id) const {
  const std::ptrdiff_t axis = axis_of("training.recompute"), modules = axis_of(std::string(kModules));
  if (axis < 0) return id;
  const auto recompute = static_cast<std::size_t>(axis);
  const auto& values = axes()[recompute].values;
  const auto none = std::find_if(values.begin(), values.end(), [](const AxisValue& v) { return v.text == "none"; });
  if (none == values.end() || asked_[recompute] || (modules >= 0 && asked_[static_cast<std::size_t>(modules)])) return id;
  const CandidateId out = first_of(id, recompute) + (none - values.begin()) * strides_[recompute];
  return modules < 0 || out == id ? out : first_of(out, static_cast<std::size_t>(modules));
}

void Space::set(CandidateId id, PlanDraft& draft) const {
  const Choice chosen = choice(id);
  for (std::size_t a = 0; a < chosen.size(); ++a) axes()[a].values[chosen[a]].set(draft.plan);
  if (!draft.given.insert("parallel.data").second) return;
  ParallelSpec& q = draft.plan.parallel;
  q.data = derived_data(draft.plan.cluster.devices * draft.plan.cluster.ranks_per_device, q.tensor * q.pipeline * q.context);
}

Plan Space::plan(CandidateId id) const {
  PlanDraft draft = question_.draft;
  set(id, draft);
  question_.switches.turn_on(draft.plan, draft.given);
  return completed(draft);
}

std::vector<std::string> Space::switched_on(CandidateId id) const {
  PlanDraft draft = question_.draft;
  set(id, draft);
  const Plan plain = completed(draft), plan = this->plan(id);
  std::vector<std::string> out;
  for (const std::string& path : question_.switches.fields())
    if (const PlanField& field = *find_field(path); field.write(plan) != field.write(plain)) out.push_back(path);
  return out;
}

std::string Space::value_text(CandidateId id, std::size_t axis) const {
  const Axis& of = axes()[axis];
  const std::string& text = of.values[choice(id)[axis]].text;
  if (of.field != kSplit || text == "auto") return text;
  const Plan plan = this->plan(id);
  return plan.parallel.pipeline_split.empty() ? text : stages_text(plan.parallel.pipeline_split);
}

std::string Space::text(CandidateId id) const { return text_of_axes(id, 1, -1); }

std::string Space::short_text(CandidateId id) const {
  return text_of_axes(id, 2, idle_axis(plan(id)));
}

std::string Space::text_of_axes(CandidateId id, std::size_t least_values, std::ptrdiff_t hidden) const {
  std::string out;
  for (std::size_t a = 0; a < axes().size(); ++a)
    if (axes()[a].values.size() >= least_values && static_cast<std::ptrdiff_t>(a) != hidden)
      out += (out.empty() ? "" : ", ") + axes()[a].name + " " + value_text(id, a);
  return out;
}

std::ptrdiff_t Space::idle_axis(const Plan& plan) const {
  return plan.training.recompute == Recompute::selective ? -1 : axis_of(std::string(kModules));
}

std::ptrdiff_t Space::axis_of(const std::string& field) const {
  const auto found = std::find_if(axes().begin(), axes().end(), [&](const Axis& a) { return a.field == field; });
  return found == axes().end() ? -1 : found - axes().begin();
}

std::string Space::document(CandidateId id) const {
  const Choice chosen = choice(id);
  nlohmann::json plan = nlohmann::json::parse(question_.document);
  const Plan whole = this->plan(id);
  for (const char* part : {"/model/preset", "/parallel/preset", "/training/preset", "/cluster/preset"}) {
    const nlohmann::json::json_pointer at(part);
    if (plan.contains(at) && plan[at].is_string() && is_preset_path(plan[at].get<std::string>()))
      plan[at] = beside(plan[at].get<std::string>(), question_.file);
  }
  for (std::size_t a = 0; a < chosen.size(); ++a) {
    if (static_cast<std::ptrdiff_t>(a) == idle_axis(whole)) continue;
    study::set_field(plan, axes()[a].field, find_field(axes()[a].field)->write(whole));
  }
  for (const std::string& path : switched_on(id)) study::set_field(plan, path, find_field(path)->write(whole));
  study::set_field(plan, "parallel.data", whole.parallel.data);
  return plan.dump(2) + "\n";
}

}  // namespace tandem::search
