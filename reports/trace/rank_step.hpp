#pragma once
// One step of one rank in figures, in one form for simulated and traced steps.

#include <compare>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "reports/trace/busy_time.hpp"

namespace tandem {

/// Number and time of some tasks or kernels in a step. Means and medians make fractions of the number.
struct WorkSum {
  double count = 0, seconds = 0;

  /// Adds one task or kernel.
  void add(double its_seconds) { count += 1, seconds += its_seconds; }
};

/// What makes calls of a collective alike.
struct CollectiveKey {
  std::string kind;             ///< "all_gather", "send" ...; "send_recv" if a trace does not say which
  std::string group;            ///< "tensor", "data" ...; empty: unknown
  std::int64_t group_size = 0;  ///< 0: unknown
  std::int64_t bytes = 0;       ///< of the full vector; 0: unknown
  auto operator<=>(const CollectiveKey&) const = default;
};

/// What makes kernels alike.
struct KernelKey {
  std::string cls, phase, name;  ///< no phase: communication
  auto operator<=>(const KernelKey&) const = default;
};

/// Seconds. A collective lasts from when its rank could begin, so waiting for others counts, as in a kernel of NCCL.
struct RankStep {
  double step_s = 0, computing_s = 0, communicating_s = 0, exposed_s = 0, idle_s = 0;
  WorkSum work;                                      ///< all tasks or kernels
  std::map<std::string, WorkSum> classes;            ///< by class; communication by axis
  std::map<std::string, WorkSum> phases;             ///< computations by phase
  std::map<CollectiveKey, WorkSum> collectives;
  std::map<KernelKey, WorkSum> kernels;              ///< of a trace
};

/// Fills a step's times from how long its device was busy.
void set_times(RankStep& step, const BusyTime& busy);

/// The class of communication in a group: "data communication", "communication of ranks 8 apart". Groups of one axis share it.
std::string communication_class(const std::string& group);

/// Combines each figure of several steps by itself; a step without it has 0.
RankStep median_step(const std::vector<RankStep>& steps);
RankStep mean_step(const std::vector<RankStep>& steps);

}  // namespace tandem
