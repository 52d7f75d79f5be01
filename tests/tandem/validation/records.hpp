#pragma once
// Judged records made by hand.

#include <string>

#include "experiments/tandem/validation/judged_record.hpp"

namespace tandem::program::test {

/// A record of `set` whose step was predicted and measured so; 1 device, one plan per id.
inline JudgedRecord record(const std::string& set, const std::string& id, double predicted, double measured) {
  JudgedRecord r;
  r.measured.set = set;
  r.measured.id = id;
  r.measured.grade = "A";
  r.measured.step_time_s = measured;
  r.step_time_s = predicted;
  r.plan.device = "device";
  r.plan.compute = "bf16";
  r.plan.devices = 1;
  r.plan.whole = r.plan.task = id;
  r.flops = 1;
  return r;
}

}  // namespace tandem::program::test
