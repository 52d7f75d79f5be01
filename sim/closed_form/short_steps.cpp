#include "sim/closed_form/short_steps.hpp"

#include <algorithm>
#include <cmath>

#include "models/plan/step_work.hpp"
#include "sim/memory/nccl_buffers.hpp"
#include "sim/memory/role_memory.hpp"
#include "sim/memory/workspaces.hpp"
#include "sim/network/communications.hpp"
#include "sim/result/steady_state.hpp"

namespace tandem::sim {
namespace {

/// Levels of short plans, each longer than the one before. After the last the plan itself is simulated.
constexpr int kLevels = 3;
/// Largest shares of time and memory by which a slope that keeps changing up to the plan's length may be wrong.
constexpr double kTime = 0.002, kMemory = 0.005;

/// How many growths are simulated: more layers than the short plan has, to see whether the host or gradients fall behind, and two
/// turns of the pipeline.
std::int64_t far_of(const lowering::Growth& g) {
  constexpr std::int64_t kLayers = 12, kTurns = 2;
  return std::min(g.times, g.of == lowering::Growth::Of::micro_batches ? kTurns : std::max<std::int64_t>(2, kLayers / g.each));
}

/// Factor on the extrapolated arena when it is compared with the device's memory.
constexpr double kRoom = 1.02;

bool of_layers(const lowering::Growth& g) { return g.of != lowering::Growth::Of::micro_batches; }

/// Cost of simulating a plan in passes of layers; kSetUp is the part that does not grow with them.
constexpr double kSetUp = 20;
double work(const Plan& plan) { return kSetUp + static_cast<double>(plan.model.total_layers() * plan.micro_batches()); }

/// Whether the simulations that a short plan needs cost less than the plan itself.
bool worth(const lowering::ShortPlan& s, const Plan& plan) {
  double sum = work(s.plan);
  for (const lowering::Growth& g : s.growths) sum += work(s.grown(g, 1)) + (far_of(g) > 1 ? work(s.grown(g, far_of(g))) : 0);
  if (s.growths.size() > 1) sum += work(s.plan) * static_cast<double>(s.growths.size() - 1);
  return sum < work(plan);
}

void add(std::vector<double>& to, const std::vector<double>& more, double times) {
  for (std::size_t i = 0; i < to.size(); ++i) to[i] += times * more[i];
}

std::vector<double> difference(std::vector<double> a, const std::vector<double>& b) {
  add(a, b, -1);
  return a;
}

std::vector<double> scaled(std::vector<double> a, double factor) {
  for (double& x : a) x *= factor;
  return a;
}

double largest_stage(const std::vector<double>& point) { return *std::max_element(point.begin() + 1, point.end()); }

bool extrapolates_batches(const lowering::ShortPlan& s) { return !s.whole() && !of_layers(s.growths.back()); }

/// The same plan with all its layers; only micro-batches are left out.
lowering::ShortPlan with_all_layers(lowering::ShortPlan s) {
  while (!s.whole() && of_layers(s.growths.front())) {
    s.plan = s.grown(s.growths.front(), s.growths.front().times);
    s.growths.erase(s.growths.begin());
  }
  return s;
}

}  // namespace

void ShortSteps::write_key(const lowering::ShortPlan& s, Reads reads) {
  key_.assign({static_cast<std::int64_t>(reads)});
  append_words(key_, s.plan.model);
  append_words(key_, s.plan.parallel);
  append_words(key_, s.plan.training);
  append_words(key_, s.plan.stack);
  for (const lowering::Growth& g : s.growths) key_.insert(key_.end(), {static_cast<std::int64_t>(g.of), g.each, far_of(g)});
}

ShortSteps::Point ShortSteps::simulated(const Plan& plan, const TaskGraph& graph, Reads reads) const {
  Point out{0};
  if (reads == Reads::all) {
    const Mesh mesh = make_mesh(plan);
    Options options;
    options.steps_overlap = step_work(plan).steps_overlap;
    out.front() = static_cast<double>(step_time({graph, mesh, topology_, cost_, nullptr, &footprints_}, options).ps());
  }
  for (const Program& p : graph.programs) out.push_back(static_cast<double>(p.memory.live_peak_bytes.count()));
  for (const Program& p : graph.programs) out.push_back(static_cast<double>(p.memory.arena_bytes.count()));
  return out;
}

std::vector<Bytes> ShortSteps::runtime(const Plan& plan, const TaskGraph& graph) const {
  const Mesh mesh = make_mesh(plan);
  const Setup setup{graph, mesh, topology_, cost_};
  const Communications communications = list_communications(graph);
  std::vector<Bytes> out;
  for (std::size_t s = 0; s < graph.programs.size(); ++s) {
    Coords first = mesh.coords(Rank(0));
    first[Axis::pp] = static_cast<std::int32_t>(s);
    out.push_back(topology_.device().runtime_memory + library_memory(plan, topology_.device()) +
                  kernel_scratch(plan, cost_.comm_fit(), graph, graph.programs[s]) +
                  communicator_buffers(setup, communications, mesh.rank(first), plan.stack.facts.communicators));
  }
  return out;
}

/// Memory of the whole plan, which is lowered and whose allocator is simulated.
Bytes ShortSteps::walked(const Plan& plan, const std::vector<Bytes>& runtime) const {
  const TaskGraph graph = lower(plan);
  const Mesh mesh = make_mesh(plan);
  Bytes most;
  for (std::size_t s = 0; s < graph.programs.size(); ++s)
    most = std::max(most, runtime[s] + needed_memory(plan, {graph, mesh, topology_, cost_}, graph.programs[s], runtime[s]));
  return most;
}

Bytes ShortSteps::memory(const Plan& plan, const Known& known, const Point& sum, MemoryEstimate by) const {
  static const TaskGraph no_graph;
  static const Mesh no_mesh({1, 1, 1, 1, 1}, "tp-cp-ep-dp-pp");
  const std::size_t stages = known.runtime.size(), first = one_arena(plan, topology_.device()) ? 1 + stages : 1;
  Bytes most;
  for (std::size_t s = 0; s < stages; ++s) {
    const Bytes arena(std::llround(kRoom * sum[1 + stages + s]));
    const bool full = by == MemoryEstimate::allocator &&
                      near_the_end(plan, {no_graph, no_mesh, topology_, cost_}, arena, known.runtime[s]);
    if (full) return walked(plan, known.runtime);
    most = std::max(most, known.runtime[s] + Bytes(std::llround(sum[first + s])));
  }
  return most;
}

ShortSteps::Known ShortSteps::read(const lowering::ShortPlan& s, Reads reads) const {
  Known out;
  const auto simulated = [&](const Plan& plan) { return this->simulated(plan, lower(plan), reads); };
  {
    const TaskGraph graph = lower(s.plan);
    out.base = this->simulated(s.plan, graph, reads);
    out.runtime = runtime(s.plan, graph);
  }
  for (const lowering::Growth& g : s.growths) {
    const std::int64_t far = far_of(g);
    const Point once = difference(simulated(s.grown(g, 1)), out.base);
    Slope slope{once, once, Point(once.size(), 0)};
    if (far > 1) {
      slope.far = difference(simulated(s.grown(g, far)), out.base);
      slope.each = scaled(difference(slope.far, once), 1 / static_cast<double>(far - 1));
      slope.change = difference(slope.each, once);
    }
    out.slopes.push_back(std::move(slope));
  }
  if (!extrapolates_batches(s)) return out;
  const lowering::Growth& batches = s.growths.back();
  const lowering::ShortPlan longer{s.grown(batches, far_of(batches)), {}};
  for (std::size_t i = 0; i + 1 < s.growths.size(); ++i) {
    const std::int64_t far = far_of(s.growths[i]);
    Point both = difference(simulated(longer.grown(s.growths[i], far)), out.base);
    add(both, out.slopes[i].far, -1);
    add(both, out.slopes.back().far, -1);
    out.together.push_back(scaled(std::move(both), 1 / static_cast<double>(far * far_of(batches))));
  }
  return out;
}

const ShortSteps::Known& ShortSteps::known(const lowering::ShortPlan& s, Reads reads) {
  write_key(s, reads);
  return store_.get(key_, [&] { return read(s, reads); });
}

/// The short plan of a level; the plan itself after the last level, or if it costs less.
lowering::ShortPlan ShortSteps::shortened(const Plan& plan, int level, Reads reads) {
  if (level < kLevels) {
    lowering::ShortPlan s = lowering::shorten(plan, level);
    if (reads == Reads::memory) s = with_all_layers(std::move(s));
    if (worth(s, plan)) return s;
  }
  return {plan, {}};
}

ShortSteps::Sum ShortSteps::sum(const lowering::ShortPlan& s, const Known& known) {
  Sum out{known.base, Point(known.base.size(), 0)};
  const bool batches = extrapolates_batches(s);
  for (std::size_t i = 0; i < s.growths.size(); ++i) {
    const auto times = static_cast<double>(s.growths[i].times), further = times - static_cast<double>(far_of(s.growths[i]));
    add(out.point, known.slopes[i].far, 1);
    add(out.point, known.slopes[i].each, further);
    for (std::size_t k = 0; k < out.unsure.size(); ++k) out.unsure[k] += further * std::abs(known.slopes[i].change[k]);
    if (batches && i < known.together.size())
      add(out.point, known.together[i], times * static_cast<double>(s.growths.back().times));
  }
  return out;
}

ReadStep ShortSteps::of(const Plan& plan, MemoryEstimate by) {
  ReadStep out = time_of(plan);
  if (out.whole) {
    const Known& known = this->known({plan, {}}, Reads::all);
    out.memory = memory(plan, known, known.base, by);
  } else {
    out.memory = memory(plan, by);
  }
  return out;
}

ReadStep ShortSteps::time_of(const Plan& plan) {
  for (int level = 0;; ++level) {
    const lowering::ShortPlan s = shortened(plan, level, Reads::all);
    const Known& known = this->known(s, Reads::all);
    if (s.whole()) return {std::llround(known.base.front()), {}, true};
    const Sum sum = this->sum(s, known);
    if (sum.unsure.front() <= kTime * sum.point.front()) return {std::llround(sum.point.front()), {}, false};
  }
}

/// Keeps all layers. Memory is the largest of several moments, such as the loss and the end of a backward pass, and each grows by
/// another amount with a layer. So with more layers another moment may decide.
Bytes ShortSteps::memory(const Plan& plan, MemoryEstimate by) {
  for (int level = 0;; ++level) {
    const lowering::ShortPlan s = shortened(plan, level, Reads::memory);
    const Known& known = this->known(s, Reads::memory);
    const Sum sum = this->sum(s, known);
    if (s.whole() || largest_stage(sum.unsure) <= kMemory * largest_stage(sum.point)) return memory(plan, known, sum.point, by);
  }
}

}  // namespace tandem::sim
