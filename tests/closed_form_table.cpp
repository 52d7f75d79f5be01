// Prints, for every timed record of measurement files, what the closed form answers beside the event simulation, and by set the share
// of records that it answers. Records of vtrain-single are one set like any other:
//
//     closed_form_table FILE...

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <ctime>
#include <iostream>
#include <map>
#include <string>
#include <vector>

#include "experiments/tandem/base/prepared_plan.hpp"
#include "experiments/tandem/validation/measurement.hpp"
#include "sim/closed_form/closed_form.hpp"
#include "sim/result/simulate.hpp"
#include "topology/plan_reader.hpp"

namespace {

using namespace tandem;

struct Answer {
  sim::Estimate estimate;
  double microseconds = 0, off = 0, memory_off = 0;
};

Answer compare(const Plan& plan) {
  const auto topology = program::topology_of(plan, "");
  const auto cost = sim::make_cost_model(*topology);
  sim::ClosedForm form(*topology, *cost);
  Answer out;
  out.estimate = form.estimate(plan);
  const std::clock_t before = std::clock();
  out.estimate = form.estimate(plan);
  out.microseconds = 1e6 * static_cast<double>(std::clock() - before) / CLOCKS_PER_SEC;
  const Prediction p = sim::simulate(plan, lower(plan), *topology);
  Bytes needed;
  for (const RolePrediction& r : p.roles) needed = std::max(needed, r.needed_bytes);
  out.off = out.estimate.step_time.seconds() / p.step_time.seconds() - 1;
  out.memory_off = static_cast<double>(out.estimate.memory.count()) / static_cast<double>(needed.count()) - 1;
  return out;
}

struct Set {
  int timed = 0, answered = 0;
  std::vector<double> off, memory_off;
};

double at(std::vector<double> list, double share) {
  if (list.empty()) return 0;
  std::sort(list.begin(), list.end());
  return list[std::min(list.size() - 1, static_cast<std::size_t>(share * static_cast<double>(list.size())))];
}

void print(const std::string& name, const Set& s) {
  std::vector<double> off = s.off, memory = s.memory_off;
  for (double& o : off) o = std::abs(o);
  for (double& o : memory) o = std::abs(o);
  std::printf("%-20s %4d timed, %5.1f %% answered; time off by %.2f %% in the median, %.2f %% at most; memory %.2f %%, %.2f %%\n", name.c_str(),
              s.timed, 100.0 * s.answered / std::max(1, s.timed), 100 * at(off, 0.5), 100 * at(off, 1), 100 * at(memory, 0.5),
              100 * at(memory, 1));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::cerr << "closed_form_table FILE...: compares the closed form and the events on timed records\n";
    return 2;
  }
  std::map<std::string, Set> sets;
  for (const program::Measurement& m : program::read_measurements({argv + 1, argv + argc}, {})) {
    if (!m.step_time_s) continue;
    Set& set = sets[m.set];
    try {
      const Plan plan = parse_plan(m.plan_json, m.id);
      require_lowerable(plan);
      const Answer a = compare(plan);
      ++set.timed;
      std::printf("%s\t%s\t%.3f s\toff %.3f %%\tmemory %.3f %%\t%.1f us\n", m.id.c_str(), sim::name(a.estimate.outside),
                  a.estimate.step_time.seconds(), 100 * a.off, 100 * a.memory_off, a.microseconds);
      if (a.estimate.outside != sim::Outside::nothing) continue;
      ++set.answered;
      set.off.push_back(a.off);
      set.memory_off.push_back(a.memory_off);
    } catch (const ConfigError& e) {
      std::printf("%s\tno plan: %s\n", m.id.c_str(), e.problems().front().reason.c_str());
    }
  }
  double shares = 0;
  for (const auto& [name, set] : sets) {
    print(name, set);
    shares += static_cast<double>(set.answered) / std::max(1, set.timed);
  }
  std::printf("%.1f %% of the timed records are answered, in the mean over sets\n", 100 * shares / static_cast<double>(sets.size()));
}
