#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <utility>

#include "reports/prediction/text.hpp"
#include "reports/trace/trace_comparison.hpp"

namespace tandem {

namespace {

constexpr double kNoted = 0.01;  ///< smallest share of the step whose collectives are worth a note, and smallest difference of bytes

/// All calls of a kind in a group.
struct Calls {
  double calls = 0, seconds = 0, bytes = 0;
  std::int64_t least = 0, most = 0;
  bool unknown_size = false;

  void add(const CollectiveKey& key, const WorkSum& sum) {
    if (sum.count == 0) return;
    least = calls == 0 ? key.bytes : std::min(least, key.bytes);
    most = std::max(most, key.bytes);
    unknown_size |= key.bytes == 0;
    calls += sum.count;
    seconds += sum.seconds;
    bytes += sum.count * static_cast<double>(key.bytes);
  }
};

std::string words(const Calls& c) {
  if (c.calls == 0) return "none";
  if (c.unknown_size) return calls_text(c.calls) + " of unknown size";
  return calls_text(c.calls) + " of " + (c.least == c.most ? "" : bytes_text(c.least) + " to ") + bytes_text(c.most);
}

constexpr const char* kBoth = "send and recv";

/// The kind that a line is counted under. One kernel of NCCL may send and receive: then both are one kind in its group.
std::string counted_kind(const CollectiveKey& key, const std::set<std::string>& both) {
  const bool point_to_point = key.kind == "send" || key.kind == "recv" || key.kind == "send_recv";
  return point_to_point && both.count(key.group) > 0 ? kBoth : key.kind;
}

/// Numbers of calls say nothing about kernels that send and receive.
bool differ(const std::string& kind, const Calls& simulated, const Calls& measured) {
  if (kind != kBoth && std::abs(simulated.calls - measured.calls) > kNoted * std::max(simulated.calls, measured.calls)) return true;
  return !measured.unknown_size && std::abs(simulated.bytes - measured.bytes) > kNoted * std::max(simulated.bytes, measured.bytes);
}

}  // namespace

std::string calls_text(double calls) { return number_text(calls, calls == std::round(calls) ? 0 : 1); }

std::vector<std::string> collective_notes(const TraceComparison& c) {
  std::set<std::string> both;  // groups in which a kernel sends and receives
  for (const CollectiveLine& line : c.collectives)
    if (line.key.kind == "send_recv") both.insert(line.key.group);
  std::map<std::pair<std::string, std::string>, std::pair<Calls, Calls>> sums;
  for (const CollectiveLine& line : c.collectives) {
    auto& [simulated, measured] = sums[{counted_kind(line.key, both), line.key.group}];
    simulated.add(line.key, line.simulated);
    measured.add(line.key, line.measured);
  }
  std::vector<std::string> out;
  for (const auto& [key, sides] : sums) {
    const auto& [simulated, measured] = sides;
    const bool matters = std::max(simulated.seconds, measured.seconds) >= kNoted * c.measured.step_s;
    if (!matters || !differ(key.first, simulated, measured)) continue;
    out.push_back(key.first + " of " + (key.second.empty() ? "an unknown group" : key.second) + ": the run makes " + words(measured) +
                  " per step, the prediction " + words(simulated));
  }
  return out;
}

}  // namespace tandem
