#include "sim/engine/play.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <string>
#include <tuple>
#include <utility>

#include "sim/cost/countable.hpp"
#include "sim/engine/company.hpp"
#include "sim/engine/jitter.hpp"

namespace tandem::sim {
namespace {

std::vector<std::uint64_t> colours_of(const Scene& scene, const Manner& manner) {
  std::vector<std::uint64_t> colours;
  std::map<std::tuple<StageId, std::uint64_t, double>, std::uint64_t> known;
  for (std::int32_t r = 0; r < scene.mesh.world_size(); ++r) {
    const std::uint64_t mark = manner.marks.empty() ? 0 : manner.marks[static_cast<std::size_t>(r)];
    const std::tuple kind{scene.stage_of(Rank(r)), mark, scene.speed(Rank(r))};
    const bool alone = manner.unfolded || manner.jitter;
    colours.push_back(alone ? static_cast<std::uint64_t>(r) : known.try_emplace(kind, known.size()).first->second);
  }
  return colours;
}

std::vector<Role> roles_of(const Scene& scene, const Classes& ranks) {
  std::vector<Role> roles(ranks.size());
  for (std::size_t r = 0; r < ranks.of.size(); ++r) roles[ranks.of[r]].ranks.push_back(static_cast<std::int32_t>(r));
  for (Role& role : roles) role.stage = scene.stage_of(Rank(role.ranks.front()));
  return roles;
}

[[noreturn]] void report(const Scene& scene, const Play& play, const std::vector<Engine::Stuck>& stuck) {
  std::string message = "the step cannot finish; waiting for each other:";
  for (std::size_t i = 0; i < stuck.size() && i < 8; ++i) {
    const Role& role = play.roles[stuck[i].role];
    const Place place = place_of(play.itinerary(stuck[i].role), stuck[i].position);
    const Instance& instance = scene.graph.program(role.stage).instances[place.instance];
    const Template& tmpl = scene.graph.of(instance);
    message += std::string(i == 0 ? " " : "; ") + "stage " + std::to_string(role.stage.value()) + " " + tmpl.name +
               "." + tmpl.tasks[place.task].name + " (layer " + std::to_string(instance.layer) + ", micro-batch " +
               std::to_string(instance.micro_batch) + ")";
  }
  throw ContractError(message);
}

void check(const Scene& scene, const Manner& manner) {
  require(scene.mesh.size(Axis::pp) == static_cast<std::int64_t>(scene.graph.programs.size()),
          "the mesh has not as many stages as the graph has programs");
  require(manner.marks.empty() || manner.marks.size() == static_cast<std::size_t>(scene.mesh.world_size()),
          "marks must name every rank");
}

/// By table of the quotient. A host that computes itself has no patterns: every task waits for its own launch.
std::vector<Course> courses_of(const std::vector<LaneTemplate>& templates, bool patterns, Play& play) {
  std::vector<std::optional<Course>> courses(play.quotient.tables.size());
  for (std::size_t r = 0; r < play.roles.size(); ++r) {
    std::optional<Course>& course = courses[play.quotient.roles[r].table];
    if (course) continue;
    std::vector<StretchId> stretches(templates.size(), -1);
    if (patterns)
      for (const std::uint32_t t : play.catalogue.templates[play.roles[r].stage.index()])
        stretches[t] = play.patterns.stretch(templates[t], play.quotient.slots(r));
    course = make_course(templates, play.quotient.slots(r), std::move(stretches), play.host.launch.ps());
    course->runs = patterns && !play.itinerary(r).host_waits;
  }
  std::vector<Course> out;
  for (auto& course : courses) out.push_back(std::move(*course));
  return out;
}

/// Walks all programs once and keeps what happened; the tasks that wait for each other when that cannot finish.
std::vector<Engine::Stuck> walk(const std::vector<LaneTemplate>& templates, Play& out) {
  out.records.clear();
  Engine engine(out.quotient, templates, out.patterns, out.host, std::move(out.times));
  for (std::size_t r = 0; r < out.roles.size(); ++r)
    engine.add({out.itinerary(r), out.quotient.roles[r].exchanges, out.course(r),
                out.delays.empty() ? nullptr : &out.delays[r]});
  engine.run();
  out.records = engine.take_records();
  out.times = engine.take_times();
  out.events += engine.events();
  return engine.stuck();
}

void perform(const Scene& scene, const std::vector<LaneTemplate>& templates, Play& out) {
  if (walk(templates, out).empty()) return;
  // Task by task, in case something waits for what its instance was not let begin.
  const std::vector<Course> with_patterns = std::exchange(out.courses, courses_of(templates, false, out));
  if (const auto stuck = walk(templates, out); !stuck.empty()) report(scene, out, stuck);
  out.courses = with_patterns;
}

/// Delays of less than half a percent of the step, those of stages that wait for each other added, are not: they are below what the
/// slowdown is known to.
bool worth_playing_again(const Play& play, const std::vector<RoleDelays>& delays) {
  Duration end;
  for (const Record& r : play.records) end = std::max(end, r.end);
  std::map<std::size_t, std::int64_t> most;  // by stage
  for (std::size_t r = 0; r < delays.size(); ++r) {
    std::int64_t& of_stage = most[play.roles[r].stage.index()];
    of_stage = std::max(of_stage, std::accumulate(delays[r].ps.begin(), delays[r].ps.end(), std::int64_t{0}));
  }
  const auto sum = [](std::int64_t so_far, const auto& stage) { return so_far + stage.second; };
  return std::accumulate(most.begin(), most.end(), std::int64_t{0}, sum) > end.ps() / 200;
}

/// `more` on top of what there is.
void add(std::vector<RoleDelays>& delays, std::vector<RoleDelays> more, const TaskGraph& graph, const std::vector<Role>& roles) {
  if (delays.empty()) return delays.swap(more);
  for (std::size_t r = 0; r < more.size(); ++r) {
    const auto& instances = graph.program(roles[r].stage).instances;
    for (std::uint32_t i = 0; i < instances.size(); ++i)
      for (std::uint16_t t = 0; t < graph.of(instances[i]).tasks.size(); ++t)
        delays[r].ps[delays[r].first[i] + t] += more[r].of(i, t);
  }
}

}  // namespace

Play play(const Scene& scene, const Manner& manner) {
  check(scene, manner);
  if (manner.jitter) require_few_tasks(scene);
  Play out;
  out.host = {scene.cost.launch(), scene.topology.device().synchronous};
  out.catalogue = make_catalogue(scene.graph, scene.replay != nullptr);
  const Wiring wiring = make_wiring(scene, out.catalogue);
  const Folding folding = fold(wiring, colours_of(scene, manner));
  out.roles = roles_of(scene, folding.ranks);
  out.quotient = make_quotient({scene, out.catalogue, wiring, folding}, lanes_of(out.host.synchronous));
  require_countable(scene, out);

  const auto templates = make_lane_templates(scene.graph, out.catalogue, out.host.synchronous);
  out.itineraries = make_itineraries(scene.graph, out.catalogue, out.host.synchronous);
  out.patterns = Patterns(out.host.launch);
  out.courses = courses_of(templates, !out.host.synchronous && !manner.singly, out);
  if (manner.jitter) out.delays = jitter_delays(out, scene.graph, *manner.jitter);
  perform(scene, templates, out);
  if (const double slowdown = scene.cost.comm_fit().compute_slowdown; slowdown > 0) {
    std::vector<RoleDelays> company = delays_in_company(out, scene.graph, slowdown, scene.topology.device().memory_bandwidth);
    if (worth_playing_again(out, company)) {
      add(out.delays, std::move(company), scene.graph, out.roles);
      perform(scene, templates, out);
    }
  }
  for (std::size_t r = 0; r < out.roles.size(); ++r) {
    out.step_time = std::max(out.step_time, out.records[r].end);
    out.tasks += static_cast<std::int64_t>(out.itinerary(r).tasks());
  }
  return out;
}

Reader::Reader(const Play& play, std::size_t role)
    : record_(play.records[role]),
      times_(play.times),
      patterns_(play.patterns),
      itinerary_(play.itinerary(role)),
      slots_(play.quotient.slots(role)),
      course_(play.course(role)),
      first_slot_(play.catalogue.first_slot),
      delays_(play.delays.empty() ? nullptr : &play.delays[role]),
      host_(play.host),
      issues_itself_(play.host.synchronous || itinerary_.host_waits) {}

std::int64_t Reader::issued(std::uint32_t instance, std::uint16_t task) const {
  const Passage& p = record_.at(times_, instance);
  if (p.singly() && issues_itself_) return times_.issued[p.first + step(instance, task).singly];
  const std::uint64_t operations = itinerary_.stops[instance].host + step(instance, task).issued;
  const std::int64_t alone = static_cast<std::int64_t>(operations) * host_.launch.ps();
  if (!p.has_pattern() || !itinerary_.host_waits) return alone;
  return record_.late[p.first][patterns_.of(patterns_[p.pattern].stretch).steps[task].lane] + alone;
}

}  // namespace tandem::sim
