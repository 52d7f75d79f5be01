#include "sim/company.hpp"

#include <algorithm>
#include <cmath>

namespace tandem::sim {
namespace {

struct Span {
  std::int64_t from, to;
};

/// Calls f(instance, task, happening) for every task of a role, in issue order.
template <class F>
void visit_tasks(const Play& play, const TaskGraph& graph, std::size_t role, F&& f) {
  const Program& program = graph.program(play.roles[role].stage);
  const Reader reader(play, role);
  for (std::uint32_t i = 0; i < program.instances.size(); ++i) {
    const Template& tmpl = graph.of(program.instances[i]);
    for (std::uint16_t t = 0; t < tmpl.tasks.size(); ++t) f(i, t, tmpl.tasks[t], reader);
  }
}

/// Sends need few compute units, and what runs in pieces beside its product has its price in that (CommFit::chunked_exposed).
bool costs_company(const Op& op) {
  const auto* collective = std::get_if<Collective>(&op);
  return collective != nullptr && !collective->chunked;
}

/// When the role was busy with collectives, as disjoint spans in order of time.
std::vector<Span> communication(const Play& play, const TaskGraph& graph, std::size_t role) {
  std::vector<Span> spans;
  visit_tasks(play, graph, role, [&](std::uint32_t i, std::uint16_t t, const Task& task, const Reader& reader) {
    if (!costs_company(task.op)) return;
    const Happening h = reader.at(i, t);
    if (h.ended > h.started) spans.push_back({h.started, h.ended});
  });
  std::sort(spans.begin(), spans.end(), [](const Span& a, const Span& b) { return a.from < b.from; });
  std::vector<Span> merged;
  for (const Span& s : spans)
    if (merged.empty() || s.from > merged.back().to) merged.push_back(s);
    else merged.back().to = std::max(merged.back().to, s.to);
  return merged;
}

class Company {
 public:
  explicit Company(std::vector<Span> spans) : spans_(std::move(spans)) {}

  /// Time of [from, to) that lies in spans. Calls ask in order of `from`.
  std::int64_t shared(std::int64_t from, std::int64_t to) {
    while (next_ < spans_.size() && spans_[next_].to <= from) ++next_;
    std::int64_t sum = 0;
    for (std::size_t s = next_; s < spans_.size() && spans_[s].from < to; ++s)
      sum += std::min(to, spans_[s].to) - std::max(from, spans_[s].from);
    return sum;
  }

 private:
  std::vector<Span> spans_;
  std::size_t next_ = 0;
};

}  // namespace

std::vector<std::vector<std::int64_t>> delays_in_company(const Play& play, const TaskGraph& graph, double slowdown) {
  std::vector<std::vector<std::int64_t>> delays;
  bool any = false;
  for (std::size_t role = 0; role < play.roles.size(); ++role) {
    std::vector<std::int64_t> of_role(play.itinerary(role).tasks(), 0);
    Company company(communication(play, graph, role));
    visit_tasks(play, graph, role, [&](std::uint32_t i, std::uint16_t t, const Task& task, const Reader& reader) {
      if (task.stream != Stream::compute || is_communication(task.op)) return;
      const Happening h = reader.at(i, t);
      const std::int64_t shared = company.shared(h.started, h.ended);
      if (shared == 0) return;
      of_role[play.itinerary(role).base[i] + t] = std::llround(static_cast<double>(shared) * slowdown);
      any = true;
    });
    delays.push_back(std::move(of_role));
  }
  if (!any) delays.clear();
  return delays;
}

}  // namespace tandem::sim
