#include "reports/trace/trace_lines.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <utility>

#include "models/base/text.hpp"
#include "reports/prediction/text.hpp"
#include "reports/trace/trace_rules.hpp"

namespace tandem {

namespace {

template <class Key>
std::set<Key> keys_of(const std::map<Key, WorkSum>& a, const std::map<Key, WorkSum>& b) {
  std::set<Key> out;
  for (const auto* table : {&a, &b})
    for (const auto& [key, sum] : *table) out.insert(key);
  return out;
}

template <class Key>
WorkSum value_of(const std::map<Key, WorkSum>& table, const Key& key) {
  const auto found = table.find(key);
  return found == table.end() ? WorkSum{} : found->second;
}

/// One line for each key that a side has, largest difference first.
template <class Line, class Key>
std::vector<Line> lines_of(const TraceComparison& c, std::map<Key, WorkSum> RankStep::*table) {
  std::vector<Line> out;
  for (const Key& key : keys_of(c.simulated.*table, c.measured.*table)) {
    Line line{key, value_of(c.simulated.*table, key), value_of(c.measured.*table, key), 0};
    line.share = line.difference_s() / c.measured.step_s;
    out.push_back(std::move(line));
  }
  const auto weight = [](const Line& l) { return std::abs(l.difference_s()); };
  std::stable_sort(out.begin(), out.end(), [&](const Line& a, const Line& b) { return weight(a) > weight(b); });
  return out;
}

std::vector<CollectiveLine> collective_lines(const TraceComparison& c) {
  std::vector<CollectiveLine> out;
  for (const CollectiveKey& key : keys_of(c.simulated.collectives, c.measured.collectives))
    out.push_back({key, value_of(c.simulated.collectives, key), value_of(c.measured.collectives, key)});
  std::stable_sort(out.begin(), out.end(), [](const CollectiveLine& a, const CollectiveLine& b) {
    if (a.key.kind != b.key.kind) return a.key.kind < b.key.kind;
    return a.key.group != b.key.group ? a.key.group < b.key.group : a.key.bytes > b.key.bytes;
  });
  return out;
}

/// Kernels without a class in the measured step, most time first.
std::vector<std::pair<std::string, WorkSum>> unknown_kernels(const RankStep& step) {
  std::map<std::string, WorkSum> sums;
  for (const auto& [key, sum] : step.kernels)
    if (key.cls == kUnknownClass) sums[key.name].count += sum.count, sums[key.name].seconds += sum.seconds;
  std::vector<std::pair<std::string, WorkSum>> out(sums.begin(), sums.end());
  std::stable_sort(out.begin(), out.end(), [](const auto& a, const auto& b) { return a.second.seconds > b.second.seconds; });
  return out;
}

std::string first_device(const std::vector<TracedRank>& run) { return run.front().device; }

std::set<std::int64_t> numbers_of(const std::vector<TracedRank>& run) {
  std::set<std::int64_t> out;
  for (const TracedRank& r : run) out.insert(r.rank);
  return out;
}

std::int64_t world_of(const std::vector<TracedRank>& run) { return run.front().world_size; }

}  // namespace

void set_lines(TraceComparison& c) {
  c.classes = lines_of<ClassLine>(c, &RankStep::classes);
  c.phases = lines_of<ClassLine>(c, &RankStep::phases);
  if (c.of_two_runs) c.kernels = lines_of<KernelLine>(c, &RankStep::kernels);
  c.collectives = collective_lines(c);
  c.unknown = unknown_kernels(c.measured);
  double unknown = 0;
  for (const auto& [name, sum] : c.unknown) unknown += sum.seconds;
  if (unknown > 0)
    c.notes.push_back(number_text(100 * unknown / c.measured.work.seconds, 1) + " % of the kernels' time has no class; it is listed as unknown");
}

std::vector<std::string> run_notes(const TraceComparison& c) {
  std::vector<std::string> out;
  const std::string device = first_device(c.newer), older = first_device(c.ranks);
  if (device != older && !device.empty() && !older.empty()) out.push_back("the devices differ: new " + device + ", baseline " + older);
  const std::int64_t world = world_of(c.newer), before = world_of(c.ranks);
  if (world != before && world > 0 && before > 0)
    out.push_back("the numbers of ranks differ: new " + std::to_string(world) + ", baseline " + std::to_string(before));
  if (const auto now = numbers_of(c.newer), then = numbers_of(c.ranks); now != then) {
    const auto words = [](const std::set<std::int64_t>& ranks) {
      std::string text;
      for (const std::int64_t r : ranks) text += (text.empty() ? "" : ", ") + std::to_string(r);
      return shortened(text);
    };
    out.push_back("the traced ranks differ: new " + words(now) + "; baseline " + words(then) + ". Means are over the ranks of each");
  }
  return out;
}

}  // namespace tandem
