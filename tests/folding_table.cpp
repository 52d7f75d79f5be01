// Prints, for every record of measurement files, how many roles its ranks were folded into and whether the prediction is that of
// the unfolded plan, bit for bit. Plans of more than MOST ranks are only folded:
//
//     folding_table MOST FILE...

#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <mutex>
#include <string>
#include <vector>

#include "experiments/tandem/base/prepared_plan.hpp"
#include "experiments/tandem/validation/measurement.hpp"
#include "models/base/threads.hpp"
#include "sim/result/simulate.hpp"
#include "topology/plan_reader.hpp"

namespace {

using namespace tandem;

struct Folded {
  std::string id, answer;  ///< "equal", "differs", "not unfolded", or why there is no prediction
  std::size_t ranks = 0, roles = 0;
  bool predicted() const { return ranks > 0; }
};

bool same(const RolePrediction& a, const RolePrediction& b) {
  return a.time_breakdown_s == b.time_breakdown_s && a.peak_memory_bytes == b.peak_memory_bytes && a.arena_bytes == b.arena_bytes &&
         a.live_peak_bytes == b.live_peak_bytes && a.memory_bytes == b.memory_bytes;
}

/// Step time, and every rank's time and memory by what it went to.
bool same(const Prediction& folded, const Prediction& whole) {
  std::vector<const RolePrediction*> of_rank(whole.roles.size(), nullptr);
  for (const RolePrediction& role : folded.roles)
    for (const std::int32_t r : role.ranks) of_rank[static_cast<std::size_t>(r)] = &role;
  const auto alike = [&](const RolePrediction& one) {
    const RolePrediction* role = of_rank[static_cast<std::size_t>(one.ranks.front())];
    return role != nullptr && same(*role, one);
  };
  return folded.step_time == whole.step_time && folded.fits == whole.fits &&
         std::all_of(whole.roles.begin(), whole.roles.end(), alike);
}

void compare(const program::Measurement& m, std::int64_t most, Folded& out) {
  const Plan plan = parse_plan(m.plan_json, m.id);
  require_lowerable(plan);
  const TaskGraph graph = lower(plan);
  const auto topology = program::topology_of(plan, "");
  const Prediction folded = sim::simulate(plan, graph, *topology);
  out.ranks = static_cast<std::size_t>(folded.ranks);
  out.roles = folded.roles.size();
  out.answer = "not unfolded";
  if (folded.ranks > most) return;
  sim::SimulateOptions unfolded;
  unfolded.unfolded = true;
  out.answer = same(folded, sim::simulate(plan, graph, *topology, unfolded)) ? "equal" : "differs";
}

Folded folded(const program::Measurement& m, std::int64_t most) {
  Folded out;
  out.id = m.id;
  try {
    compare(m, most, out);
  } catch (const ConfigError& e) {
    out.answer = e.problems().front().field + ": " + e.problems().front().reason;
  }
  return out;
}

void print(const Folded& f) {
  std::cout << f.id << "\t" << f.ranks << " ranks\t" << f.roles << " roles\t" << f.answer << std::endl;
}

void print_sums(const std::vector<Folded>& all) {
  const auto count = [&](auto which) { return std::count_if(all.begin(), all.end(), which); };
  const auto answered = [&](const std::string& answer) {
    return count([&](const Folded& f) { return f.predicted() && f.answer == answer; });
  };
  std::cout << all.size() << " records, " << count([](const Folded& f) { return f.predicted(); }) << " predicted: " << answered("equal")
            << " equal to unfolded, " << answered("differs") << " different, " << answered("not unfolded") << " not unfolded; "
            << count([](const Folded& f) { return f.predicted() && f.roles < f.ranks; }) << " in fewer roles than ranks, "
            << count([](const Folded& f) { return f.ranks == 1; }) << " of one rank\n";
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) {
    std::cerr << "folding_table MOST FILE...: compares plans of up to MOST ranks folded and unfolded\n";
    return 2;
  }
  const std::int64_t most = std::atoll(argv[1]);
  const auto records = program::read_measurements({argv + 2, argv + argc}, {});
  std::vector<Folded> all(records.size());
  std::mutex one;
  for_each_index(records.size(), {all_cores()}, [&](std::size_t i) {
    all[i] = folded(records[i], most);
    const std::lock_guard lock(one);
    print(all[i]);
  });
  print_sums(all);
}
