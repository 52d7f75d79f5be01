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

/// Fields that only say how gradients, weights and states travel and where they lie: no computation of a layer depends on them.
constexpr std::array<std::string_view, 16> kOfTheExchange{
    "parallel.zero_stage",        "parallel.zero_group",       "parallel.overlap_grad_reduce", "parallel.overlap_param_gather",
    "parallel.bucket_bytes",      "parallel.prefetch_layers",  "parallel.reuse_distance",      "parallel.overlap_p2p",
    "parallel.scatter_p2p",       "parallel.offload.optimizer", "parallel.offload.parameters", "parallel.offload.ratio",
    "parallel.optimizer_sync",    "parallel.unit_copies",      "parallel.root_unit",           "training.expandable_segments"};

/// The stack that completed candidates have.
std::string stack_of(const Question& question) {
  PlanDraft draft = question.draft;
  for (const Axis& axis : question.axes) axis.values.front().set(draft.plan);
  return completed(draft).stack.name;
}

}  // namespace

Space::Space(Question question) : question_(std::move(question)) {
  const std::set<std::string> asked = condition_fields(stack_of(question_));
  const auto inner = [&](const Axis& a) {
    return std::find(kOfTheExchange.begin(), kOfTheExchange.end(), a.field) != kOfTheExchange.end() && asked.count(a.field) == 0;
  };
  std::stable_partition(question_.axes.begin(), question_.axes.end(), [&](const Axis& a) { return !inner(a); });
  for (const Axis& a : question_.axes) {
    (inner(a) ? members_ : groups_) *= static_cast<std::int64_t>(a.values.size());
    if (size() > kMostCandidates)
      throw ConfigError(Problem{question_.file, "--axis", "", "there are more than " + std::to_string(kMostCandidates) + " candidates", "give fewer values"});
  }
}

Choice Space::choice(CandidateId id) const {
  Choice out(axes().size());
  for (std::size_t a = axes().size(); a-- > 0;) {
    const auto n = static_cast<std::int64_t>(axes()[a].values.size());
    out[a] = static_cast<std::uint16_t>(id % n);
    id /= n;
  }
  return out;
}

CandidateId Space::first_of(CandidateId id, std::size_t axis) const {
  CandidateId behind = 1;
  for (std::size_t a = axis + 1; a < axes().size(); ++a) behind *= static_cast<CandidateId>(axes()[a].values.size());
  return id - choice(id)[axis] * behind;
}

void Space::set(CandidateId id, PlanDraft& draft) const {
  const Choice chosen = choice(id);
  for (std::size_t a = 0; a < chosen.size(); ++a) axes()[a].values[chosen[a]].set(draft.plan);
  ParallelSpec& q = draft.plan.parallel;
  if (draft.given.count("parallel.data") != 0) return;
  const std::int64_t ranks = draft.plan.cluster.devices * draft.plan.cluster.ranks_per_device;
  const std::int64_t others = q.tensor * q.pipeline * q.context;
  q.data = ranks % others == 0 ? ranks / others : 0;
  draft.given.insert("parallel.data");
}

Plan Space::plan(CandidateId id) const {
  PlanDraft draft = question_.draft;
  set(id, draft);
  return completed(draft);
}

bool Space::divides(CandidateId id) const {
  PlanDraft draft = question_.draft;
  set(id, draft);
  const std::int64_t ranks = draft.plan.cluster.devices * draft.plan.cluster.ranks_per_device;
  return draft.plan.parallel.data > 0 && draft.plan.world_size() == ranks;
}

std::string Space::text(CandidateId id) const { return text_of_axes(id, 1); }

std::string Space::short_text(CandidateId id) const { return text_of_axes(id, 2); }

std::string Space::text_of_axes(CandidateId id, std::size_t least_values) const {
  const Choice chosen = choice(id);
  std::string out;
  for (std::size_t a = 0; a < chosen.size(); ++a)
    if (axes()[a].values.size() >= least_values)
      out += (out.empty() ? "" : ", ") + axes()[a].name + " " + axes()[a].values[chosen[a]].text;
  return out;
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
  for (std::size_t a = 0; a < chosen.size(); ++a)
    study::set_field(plan, axes()[a].field, find_field(axes()[a].field)->write(whole));
  study::set_field(plan, "parallel.data", whole.parallel.data);
  return plan.dump(2) + "\n";
}

}  // namespace tandem::search
