#pragma once
// A table of errors, and predictions that ask it.

#include <string>
#include <utility>
#include <vector>

#include "sim/result/error_book.hpp"
#include "tests/catch.hpp"
#include "tests/sim/engine/fakes.hpp"

namespace tandem::sim::test {

/// Two nodes of two devices with a calibration of that name.
inline FakeTopology two_nodes_of(const std::string& calibration) {
  Shape shape;
  shape.devices = 4, shape.per_node = 2, shape.calibration = calibration;
  return FakeTopology(shape);
}

inline Prediction seconds(double step, double launch = 0) {
  Prediction p;
  p.step_time = Duration::seconds(step);
  p.roles.resize(1);
  p.roles[0].time_breakdown_s["launch"] = launch;
  return p;
}

inline ErrorBook book() {
  ErrorBook b;
  b.computed = "today";
  b.unknown = {-0.4, 0.5, "never measured"};
  b.uncalibrated = {0, 0.8, "steps take longer"};
  b.entries = {{"known", "many nodes", "a", 10, {-0.10, 0.00, 0.10}},
               {"known", "many nodes", "b", 10, {-0.05, 0.05, 0.20}},
               {"known", "one node", "c", 10, {0.5, 0.6, 0.7}},
               {"other", "many nodes", "d", 10, {-0.9, 0.0, 0.9}}};
  return b;
}

/// A book whose errors of no situation are beyond its default.
inline ErrorBook precise_book() {
  ErrorBook out = book();
  for (ErrorEntry& e : out.entries) e.quantiles = {-0.1, 0.0, 0.1};
  return out;
}

inline StepRange range_of(const ErrorBook& book, const Prediction& p, const Topology& topology,
                          std::vector<std::string> without = {}, const PlanTraits& traits = {}) {
  RangeQuestion question = range_question(p, topology, traits);
  question.without = std::move(without);
  return step_range(book, p, question);
}

}  // namespace tandem::sim::test
