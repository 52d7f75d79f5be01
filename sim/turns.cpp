#include "sim/turns.hpp"

#include <algorithm>
#include <array>

namespace tandem::sim {
namespace {

constexpr std::int64_t kNever = INT64_MAX;

/// A communication in a program. Computations are known by their positions in issue order.
struct Comm {
  PortEnd end = 0;
  std::uint8_t lane = 0;
  std::int64_t after = -1;        ///< the last computation that has ended when it starts
  std::int64_t settled = kNever;  ///< the first computation that starts after it has ended
};

/// The same within a template, by task index; -1 and kNever where the template does not say.
struct TemplateComm {
  std::uint16_t task;
  Comm comm;
};

class Study {
 public:
  Study(const TaskGraph& graph, const Catalogue& catalogue, const LaneOfStream& lanes)
      : graph_(graph), catalogue_(catalogue), lanes_(lanes) {
    for (std::size_t t = 0; t < graph.templates.size(); ++t) in_template_.push_back(of_template(t));
  }

  std::vector<Comm> of_program(const Program& program) const {
    std::vector<Comm> comms;
    std::vector<std::uint32_t> first;  // by instance
    std::vector<std::int64_t> base;
    first.reserve(program.instances.size());
    base.reserve(program.instances.size());
    std::size_t count = 0;
    for (const Instance& i : program.instances) count += in_template_[i.tmpl.index()].size();
    comms.reserve(count);
    std::int64_t position = 0;
    for (const Instance& i : program.instances) {
      first.push_back(static_cast<std::uint32_t>(comms.size()));
      base.push_back(position);
      for (const TemplateComm& tc : in_template_[i.tmpl.index()]) comms.push_back(placed(tc.comm, position));
      position += static_cast<std::int64_t>(graph_.of(i).tasks.size());
    }
    for (const Edge& e : program.edges) {
      const std::int64_t from = find(program, first, e.from_instance, e.from_task);
      const std::int64_t to = find(program, first, e.to_instance, e.to_task);
      if (to >= 0 && from < 0) raise(comms[static_cast<std::size_t>(to)].after, base[e.from_instance] + e.from_task);
      if (from >= 0 && to < 0) lower(comms[static_cast<std::size_t>(from)].settled, base[e.to_instance] + e.to_task);
    }
    settle(comms);
    return comms;
  }

 private:
  static void raise(std::int64_t& value, std::int64_t to) { value = std::max(value, to); }
  static void lower(std::int64_t& value, std::int64_t to) { value = std::min(value, to); }

  std::size_t lane(const Task& task) const { return lanes_[static_cast<std::size_t>(task.stream)]; }

  std::vector<TemplateComm> of_template(std::size_t t) const {
    const auto& tasks = graph_.templates[t].tasks;
    std::vector<TemplateComm> comms;
    for (std::size_t i = 0; i < tasks.size(); ++i) {
      const auto& entry = catalogue_.entries[catalogue_.first_slot[t] + i];
      if (entry.message < 0) continue;
      const std::uint32_t port = catalogue_.messages[static_cast<std::size_t>(entry.message)].port;
      Comm comm{2 * port + entry.receiver, static_cast<std::uint8_t>(lane(tasks[i])), -1, kNever};
      for (const std::uint16_t d : tasks[i].deps)
        if (!is_communication(tasks[d].op)) raise(comm.after, d);
      for (std::size_t later = i + 1; later < tasks.size() && comm.settled == kNever; ++later)
        if (!is_communication(tasks[later].op) && depends(tasks[later], i))
          comm.settled = static_cast<std::int64_t>(later);
      comms.push_back({static_cast<std::uint16_t>(i), comm});
    }
    return comms;
  }

  static bool depends(const Task& task, std::size_t on) {
    return std::find(task.deps.begin(), task.deps.end(), on) != task.deps.end();
  }

  static Comm placed(Comm comm, std::int64_t base) {
    if (comm.after >= 0) comm.after += base;
    if (comm.settled != kNever) comm.settled += base;
    return comm;
  }

  /// Index of a communication among the program's, -1 for a computation.
  std::int64_t find(const Program& program, const std::vector<std::uint32_t>& first, std::uint32_t instance,
                    std::uint16_t task) const {
    const auto& list = in_template_[program.instances[instance].tmpl.index()];
    for (std::size_t i = 0; i < list.size(); ++i)
      if (list[i].task == task) return first[instance] + static_cast<std::int64_t>(i);
    return -1;
  }

  /// On a lane what comes after has not begun.
  static void settle(std::vector<Comm>& comms) {
    std::array<std::int64_t, kStreams> known;
    known.fill(kNever);
    for (auto c = comms.rbegin(); c != comms.rend(); ++c)
      c->settled = known[c->lane] = std::min(known[c->lane], c->settled);
  }

  const TaskGraph& graph_;
  const Catalogue& catalogue_;
  const LaneOfStream& lanes_;
  std::vector<std::vector<TemplateComm>> in_template_;
};

}  // namespace

Turns::Turns(const TaskGraph& graph, const Catalogue& catalogue, const LaneOfStream& lanes)
    : ends_(2 * catalogue.ports.size()), together_(graph.programs.size() * ends_ * ends_, 0) {
  const Study study(graph, catalogue, lanes);
  for (std::size_t s = 0; s < graph.programs.size(); ++s) {
    // An end is always worked by one lane, and few ends occur.
    struct Seen {
      PortEnd end;
      std::uint8_t lane;
      std::int64_t settled;
    };
    std::vector<Seen> seen;
    std::size_t before = SIZE_MAX;  // of the communication before, in `seen`
    std::array<std::int64_t, kStreams> after;  // on a lane what went before has ended
    after.fill(-1);
    for (const Comm& c : study.of_program(graph.programs[s])) {
      after[c.lane] = std::max(after[c.lane], c.after);
      if (before < seen.size() && seen[before].end == c.end) {
        // No lane goes back: nobody is beside it who was not beside the one before.
        seen[before].settled = std::max(seen[before].settled, c.settled);
        continue;
      }
      Seen* own = nullptr;
      for (Seen& other : seen) {
        if (other.end == c.end) own = &other;
        if (other.settled > after[c.lane] && other.lane != c.lane)
          together_[(s * ends_ + c.end) * ends_ + other.end] = together_[(s * ends_ + other.end) * ends_ + c.end] = 1;
      }
      if (own == nullptr) own = &seen.emplace_back(Seen{c.end, c.lane, -1});
      own->settled = std::max(own->settled, c.settled);
      own->lane = c.lane;
      before = static_cast<std::size_t>(own - seen.data());
    }
  }
}

}  // namespace tandem::sim
