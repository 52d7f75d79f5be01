#include "experiments/tandem/search/fewer.hpp"

#include <algorithm>

namespace tandem::search {

namespace {

constexpr std::int64_t kSmallOdd = 3;  ///< pipelines and data ranks take a factor of three

std::int64_t odd_factor(std::int64_t n) {
  while (n % 2 == 0) n /= 2;
  return n;
}

bool is_close(std::int64_t fewer, std::int64_t devices) { return fewer < devices && 4 * fewer >= 3 * devices; }

std::optional<Simulated> fastest(Request request, std::int64_t devices, const SearchOptions& options) {
  request.devices = devices;
  try {
    const Space space(read_question(request));
    Search search(space, options);
    search.explore();
    const Answer answer = search.answer();
    if (!answer.best.empty()) return answer.best.front();
  } catch (const InfeasibleError&) {  // the cluster or the plan's degrees do not go with this number
  }
  return std::nullopt;
}

}  // namespace

std::vector<std::int64_t> rounder_counts(std::int64_t devices, std::int64_t per_node, std::int64_t batch) {
  if (odd_factor(devices) <= kSmallOdd) return {};
  std::vector<std::int64_t> out;
  for (std::int64_t step = 2; step < devices; step *= 2)
    if (const std::int64_t n = devices / step * step; is_close(n, devices)) out.assign(1, n);
  for (std::int64_t nodes = (devices - 1) / per_node; is_close(nodes * per_node, devices); --nodes) {
    if (batch % nodes != 0) continue;
    if (out.empty() || out.front() != nodes * per_node) out.push_back(nodes * per_node);
    break;
  }
  return out;
}

std::optional<Fewer> faster_with_fewer(const Request& request, const Search& search, const Answer& answer) {
  if (answer.best.empty()) return std::nullopt;
  const Simulated& first = answer.best.front();
  const Plan plan = search.judge().space().plan(first.id);
  const std::int64_t devices = plan.cluster.devices;
  if (plan.parallel.data % odd_factor(devices) == 0) return std::nullopt;
  Request fewer = request;
  fewer.batch = plan.training.global_batch_size;
  SearchOptions options = search.options();
  options.best = 1, options.shard = 0, options.shards = 1;
  options.learned = nullptr;
  std::optional<Fewer> out;
  std::int64_t limit = first.time_ps;
  for (const std::int64_t n : rounder_counts(devices, search.judge().topology().devices_per_node(), fewer.batch)) {
    const std::optional<Simulated> step = fastest(fewer, n, options);
    if (step && step->time_ps < limit) limit = step->time_ps, out = Fewer{n, *step};
  }
  return out;
}

}  // namespace tandem::search
