#include "reports/timeline/run_routing.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <nlohmann/json.hpp>

#include "models/base/json.hpp"
#include "reports/timeline/saved_timeline.hpp"

namespace tandem {
namespace {

using nlohmann::json;
using Numbers = std::vector<RouterCounts>;

/// Fields that decide which token meets which router on which rank; so do all of `model`. Stages do not: a layer's router
/// sees the same tokens on any stage.
constexpr std::array<std::string_view, 8> kParallel{"tensor",  "data",   "context",    "context_mode",
                                                    "ulysses", "expert", "rank_order", "sequence_parallel"};
constexpr std::array<std::string_view, 3> kTraining{"seq_length", "micro_batch_size", "global_batch_size"};
constexpr std::array<std::string_view, 3> kForPeople{"name", "notes", "preset"};

class Comparison {
 public:
  Comparison(const Plan& plan, const std::string& run, const json& theirs) : plan_(plan), run_(run), theirs_(theirs) {}

  void require_equal() {
    const json mine = json::parse(to_json(plan_));
    everything("model", mine.at("model"), part(theirs_, "model"));
    for (const std::string_view key : kParallel)
      field("parallel." + std::string(key), value(mine, "parallel", key), value(theirs_, "parallel", key));
    for (const std::string_view key : kTraining)
      field("training." + std::string(key), value(mine, "training", key), value(theirs_, "training", key));
    if (!problems_.empty()) throw ConfigError(std::move(problems_));
  }

 private:
  static json part(const json& of, const std::string& key) {
    return of.is_object() && of.contains(key) ? of.at(key) : json();
  }
  static json value(const json& plan, const std::string& section, std::string_view key) {
    return part(part(plan, section), std::string(key));
  }
  void everything(const std::string& path, const json& mine, const json& theirs) {
    for (const auto& [key, v] : mine.items()) {
      if (std::find(kForPeople.begin(), kForPeople.end(), key) != kForPeople.end()) continue;
      const json other = part(theirs, key);
      if (v.is_object())
        everything(path + "." + key, v, other);
      else
        field(path + "." + key, v, other);
    }
  }
  void field(const std::string& path, const json& mine, const json& theirs) {
    if (mine == theirs) return;
    problems_.push_back({plan_.file, path, value_text(mine),
                         "the run whose routing is replayed (" + run_ + ") has " + value_text(theirs),
                         "replay a run of this model, batch and layout"});
  }

  const Plan& plan_;
  const std::string& run_;
  const json& theirs_;
  std::vector<Problem> problems_;
};

[[noreturn]] void refuse(const std::string& path, const std::string& reason) {
  throw ConfigError(Problem{path, "lanes.routing", "", reason,
                            "give the file that `tandem train PLAN --timeline` wrote for this plan"});
}

/// Coordinates without the pipeline axis.
Coords off_stage(Coords c) {
  c[Axis::pp] = 0;
  return c;
}

std::map<Coords, Numbers> by_position(const SavedTimeline& run) {
  std::map<Coords, Numbers> all;
  for (const SavedLane& lane : run.lanes) {
    Numbers& here = all[off_stage(lane.coords)];
    here.insert(here.end(), lane.routing.begin(), lane.routing.end());
  }
  return all;
}

}  // namespace

Routing routing_of(const Timeline& timeline, const Mesh& mesh) {
  std::vector<Numbers> by_rank(static_cast<std::size_t>(mesh.world_size()));
  for (const Lane& lane : timeline.lanes)
    for (const std::int32_t r : lane.ranks) by_rank[static_cast<std::size_t>(r)] = lane.routing;
  return {mesh, by_rank};
}

Routing read_routing(const std::string& path, const Plan& plan) {
  if (!depends_on_routing(plan))
    throw ConfigError(
        Problem{plan.file, "parallel.expert", std::to_string(plan.parallel.expert),
                "no rows depend on routing: only experts without model.moe.capacity_factor on several ranks do",
                "leave --routing out"});
  const SavedTimeline run = read_timeline(path);
  if (run.performer != Performer::executed) refuse(path, "is simulated: nothing was routed");
  Comparison(plan, path, json::parse(run.plan_json)).require_equal();
  const std::map<Coords, Numbers> known = by_position(run);
  const Mesh mesh = make_mesh(plan);
  const RoutedTokens expected = routed_tokens(plan);
  std::vector<Numbers> by_rank;
  for (std::int32_t r = 0; r < mesh.world_size(); ++r) {
    const auto found = known.find(off_stage(mesh.coords(Rank(r))));
    if (found == known.end() || !expected.complete(found->second))
      refuse(path, "lacks choices of experts of some layer, micro-batch or rank");
    by_rank.push_back(found->second);
  }
  return {mesh, by_rank};
}

}  // namespace tandem
