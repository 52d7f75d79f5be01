#include <cmath>

#include "experiments/tandem/validation/baseline.hpp"
#include "tests/catch.hpp"
#include "tests/tandem/validation/records.hpp"

using namespace tandem::program;
using tandem::program::test::record;

namespace {

/// A record that achieved `rate` on each of its devices.
JudgedRecord achieving(const std::string& set, double rate, double seconds = 1) {
  JudgedRecord r = record(set, set, 1, seconds);
  r.plan.devices = 4;
  r.flops = rate * seconds * 4;
  return r;
}

double error_of(double constant, const std::vector<double>& rates) {
  double sum = 0;
  for (double a : rates) sum += std::abs(a / constant - 1);
  return sum / static_cast<double>(rates.size());
}

}  // namespace

TEST_CASE("the best constant has the least mean absolute percent error of all") {
  for (const std::vector<double>& rates : {std::vector<double>{100}, {100, 200}, {90, 100, 130}, {50, 60, 200, 220, 230}}) {
    const double best = error_of(best_constant(rates), rates);
    for (double constant = 40; constant < 300; constant += 0.5) CHECK(best <= error_of(constant, rates) + 1e-12);
  }
}

TEST_CASE("a set of eight has a constant of its own, fitted without the record that is judged") {
  std::vector<JudgedRecord> records;
  for (int i = 0; i < 7; ++i) records.push_back(achieving("large", 100));
  records.push_back(achieving("large", 50, 3));
  records.push_back(achieving("other", 10));
  add_baseline(records);
  CHECK(*records[7].baseline_s == Approx(1.5));  // 50 x 3 s at the others' 100
  CHECK(*records[0].baseline_s == Approx(1));    // six of 100 outvote the one of 50
}

TEST_CASE("sets of fewer than eight are pooled, and what has no pool takes every record of its device and type") {
  std::vector<JudgedRecord> records;
  for (int i = 0; i < 8; ++i) records.push_back(achieving("large", 100));
  records.push_back(achieving("small", 20));
  records.push_back(achieving("tiny", 40));
  add_baseline(records);
  CHECK(*records[8].baseline_s == Approx(0.5));  // 20 at tiny's 40
  CHECK(*records[9].baseline_s == Approx(2));
  records.pop_back();
  add_baseline(records);
  CHECK(*records[8].baseline_s == Approx(0.2));  // nothing small is left: at large's 100
}

TEST_CASE("a baseline knows device and type, and none is made up where there is nothing to fit") {
  std::vector<JudgedRecord> records = {achieving("small", 20), achieving("small", 40), achieving("small", 80),
                                       achieving("small", 99)};
  records[0].plan.device = "another";
  records[1].plan.compute = "fp8";
  records[3].measured.grade = "C";
  add_baseline(records);
  for (const JudgedRecord& r : records) CHECK(!r.baseline_s);
}
