#include "exec/measure/measure.hpp"

#include <algorithm>
#include <chrono>

#include "exec/measure/measure_comm.hpp"
#include "exec/measure/measure_grid.hpp"
#include "exec/measure/measure_host.hpp"
#include "exec/measure/op_timer.hpp"
#include "exec/measure/today.hpp"
#include "models/base/error.hpp"

namespace tandem::exec {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point t) { return std::chrono::duration<double>(Clock::now() - t).count(); }

/// The lowest median of each operation over several rounds of the whole list. Rounds are seconds apart, so a short disturbance of
/// the machine does not enter the table.
class ComputeRounds {
 public:
  ComputeRounds(const MeasureOptions& options, DType dtype, double budget_s)
      : options_(options), budget_s_(budget_s), timer_(dtype) {
    for (const auto& op : measured_operations(options.quick, dtype)) samples_.push_back({op, dtype, 0});
  }

  /// Later rounds may be cut short, because every operation already has a time.
  std::vector<CostSample> run() {
    one_round(0);
    for (int round = 1; round < kMostRounds && !over(); ++round) one_round(round);
    return std::move(samples_);
  }

 private:
  static constexpr int kMostRounds = 5;

  bool over() const { return (options_.stop && options_.stop()) || seconds_since(begin_) >= budget_s_; }

  void one_round(int round) {
    const double each = budget_s_ / (4.0 * static_cast<double>(samples_.size()));
    for (std::size_t i = 0; i < samples_.size(); ++i) {
      if (round > 0 && over()) return;
      if (i % 100 == 0 && options_.progress) options_.progress("computation", std::min(1.0, seconds_since(begin_) / budget_s_));
      if (round == 0) end_where_stopped(options_.stop);
      auto& s = samples_[i];
      const double now = timer_.seconds(s.op, each);
      s.seconds = round == 0 ? now : std::min(s.seconds, now);
    }
  }

  const MeasureOptions& options_;
  double budget_s_;
  OpTimer timer_;
  std::vector<CostSample> samples_;
  Clock::time_point begin_ = Clock::now();
};

void tell(const MeasureOptions& options, const char* what, double done) {
  if (options.progress) options.progress(what, done);
}

bool is_computed(DType t) { return t == DType::fp64 || t == DType::fp32 || t == DType::bf16 || t == DType::fp16; }

double computation_budget(const MeasureOptions& options) {
  if (options.computation_s > 0) return options.computation_s;
  return options.quick ? 9 : 35;
}

}  // namespace

CostTable measure_cpu(const MeasureOptions& options) {
  require(!options.dtypes.empty() && std::ranges::all_of(options.dtypes, is_computed),
          "the CPU backend computes in fp64, fp32, bf16 and fp16");
  CostTable table;
  table.device = "cpu-host";
  table.date = today();
  table.host = describe_host();
  table.compiler = describe_compiler();
  table.notes = options.quick ? "quick: coarse grids" : "";
  table.runtime_bytes = Bytes(resident_bytes());
  tell(options, "host time per task", 0);
  table.launch_s = measure_launch();
  tell(options, "communication", 0);
  table.comm = measure_communication(options.quick, options.stop);
  tell(options, "cores at once", 0);
  table.slowdown = measure_slowdown(options);
  for (const DType type : options.dtypes) {
    const auto timed = ComputeRounds(options, type, computation_budget(options)).run();
    table.samples.insert(table.samples.end(), timed.begin(), timed.end());
  }
  return table;
}

}  // namespace tandem::exec
