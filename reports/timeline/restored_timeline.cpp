#include "reports/timeline/restored_timeline.hpp"

#include <cstdint>
#include <map>
#include <unordered_map>
#include <utility>
#include <vector>

#include "models/base/error.hpp"

namespace tandem {

namespace {

/// The key of a task: TaskKey without coordinates.
struct Key {
  std::int32_t name, layer, micro_batch, chunk, phase;
  bool operator==(const Key&) const = default;
};

struct KeyHash {
  std::size_t operator()(const Key& k) const {
    std::uint64_t hash = 0;
    for (const std::int32_t part : {k.name, k.layer, k.micro_batch, k.chunk, k.phase})
      hash = (hash ^ static_cast<std::uint32_t>(part)) * 0x9E3779B97F4A7C15U;
    return static_cast<std::size_t>(hash ^ (hash >> 32));
  }
};

struct Place {
  std::uint32_t instance;
  std::uint16_t task;
};

class Restorer {
 public:
  Restorer(const SavedTimeline& saved, const TaskGraph& graph, const std::string& file)
      : saved_(saved), graph_(graph), file_(file), phase_(saved.phases.size(), -1) {
    for (const SavedTask& t : saved.tasks) task_names_.push_back(name_of(t.block, t.task));
    for (std::size_t i = 0; i < saved.phases.size(); ++i)
      for (std::size_t p = 0; p < kPhases; ++p)
        if (saved.phases[i] == name(static_cast<Phase>(p))) phase_[i] = static_cast<std::int32_t>(p);
  }

  Lane lane(const SavedLane& saved) {
    const std::int32_t stage = saved.coords[Axis::pp];
    if (stage < 0 || static_cast<std::size_t>(stage) >= graph_.programs.size()) refuse("has a stage " + std::to_string(stage));
    Places& places = places_of(StageId(stage));
    for (auto& [key, of_name] : places) of_name.used = 0;
    Lane out{saved.coords, saved.ranks, {}, saved.arena_bytes, saved.routing};
    out.spans.reserve(saved.spans.size());
    for (const SavedSpan& s : saved.spans) {
      const Key key{task_names_[s.task], s.layer, s.micro_batch, s.chunk, phase_[static_cast<std::size_t>(s.phase)]};
      const auto found = places.find(key);
      if (found == places.end() || found->second.used == found->second.places.size())
        refuse("has a task " + saved_.tasks[s.task].block + ": " + saved_.tasks[s.task].task);
      const Place& place = found->second.places[found->second.used++];
      out.spans.push_back({place.instance, place.task, s.issued, s.ready, s.started, s.ended});
    }
    return out;
  }

 private:
  /// The tasks of one name in issue order, and how many of them a lane has used.
  struct Named {
    std::vector<Place> places;
    std::size_t used = 0;
  };
  using Places = std::unordered_map<Key, Named, KeyHash>;

  std::int32_t name_of(const std::string& block, const std::string& task) {
    return names_.try_emplace({block, task}, static_cast<std::int32_t>(names_.size())).first->second;
  }

  Places& places_of(StageId stage) {
    const auto [at, added] = places_.try_emplace(stage.index());
    if (!added) return at->second;
    const std::vector<Instance>& instances = graph_.program(stage).instances;
    for (std::uint32_t i = 0; i < instances.size(); ++i) {
      const Instance& in = instances[i];
      const Template& block = graph_.of(in);
      for (std::uint16_t t = 0; t < block.tasks.size(); ++t)
        at->second[{name_of(block.name, block.tasks[t].name), in.layer, in.micro_batch, in.chunk,
                    static_cast<std::int32_t>(in.phase)}]
            .places.push_back({i, t});
    }
    return at->second;
  }

  [[noreturn]] void refuse(const std::string& what) const {
    throw ConfigError(Problem{file_, "", "", what + " that this version does not lower from its plan",
                              "write the timeline again with this version"});
  }

  const SavedTimeline& saved_;
  const TaskGraph& graph_;
  const std::string& file_;
  std::vector<std::int32_t> phase_;  ///< by phase of the file
  std::map<std::pair<std::string, std::string>, std::int32_t> names_;
  std::vector<std::int32_t> task_names_;  ///< by task of the file
  std::map<std::size_t, Places> places_;
};

}  // namespace

Timeline restored(const SavedTimeline& saved, const TaskGraph& graph, const std::string& file,
                  const std::vector<std::size_t>& chosen) {
  Restorer restorer(saved, graph, file);
  Timeline out{saved.performer, saved.plan_json, saved.step_time, {}};
  for (const SavedLane& lane : saved.lanes) out.lanes.push_back({lane.coords, lane.ranks, {}, lane.arena_bytes, {}});
  for (const std::size_t l : chosen) out.lanes.at(l) = restorer.lane(saved.lanes[l]);
  return out;
}

}  // namespace tandem
