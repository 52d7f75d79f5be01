#include "sim/network/exclusion.hpp"

#include <algorithm>
#include <array>

#include "models/base/error.hpp"

namespace tandem::sim {
namespace {

constexpr std::int64_t kNever = INT64_MAX;

/// Communications of an instance that follow each other at one end, on one lane. Computations are named by their positions in
/// issue order.
struct Comms {
  PortEnd end = 0;
  std::uint8_t lane = 0;
  std::int64_t after = -1;             ///< the last computation that the first of them waits for
  std::int64_t last_after = -1;        ///< the last computation that any of them waits for
  std::int64_t settled = kNever;       ///< the first computation that waits for the last of them
  std::int64_t first_settled = kNever; ///< the first computation that waits for any of them
};

/// The communications of a template; positions are task indices, -1 and kNever if the template does not tell.
struct TemplateComms {
  /// A communication's place in `rows`; row -1: a computation.
  struct Participant {
    std::int32_t row = -1;
    bool first = false, last = false;
  };
  std::vector<Comms> rows;
  std::vector<Participant> participants;  ///< by task
};

class Study {
 public:
  Study(const TaskGraph& graph, const Communications& communications, const LaneOfStream& lanes)
      : graph_(graph), communications_(communications), lanes_(lanes) {
    for (std::size_t t = 0; t < graph.templates.size(); ++t) in_template_.push_back(of_template(t));
  }

  std::vector<Comms> of_program(const Program& program) const {
    std::vector<Comms> rows;
    std::vector<std::size_t> first;  // by instance
    std::vector<std::int64_t> base;
    first.reserve(program.instances.size());
    base.reserve(program.instances.size());
    rows.reserve(2 * program.instances.size());
    std::int64_t position = 0;
    for (const Instance& i : program.instances) {
      const TemplateComms& tmpl = in_template_[i.tmpl.index()];
      first.push_back(rows.size());
      base.push_back(position);
      for (const Comms& c : tmpl.rows) rows.push_back(placed(c, position));
      position += static_cast<std::int64_t>(tmpl.participants.size());
    }
    for (const Edge& e : program.edges) {
      const TemplateComms::Participant& from = participant(program, e.from_instance, e.from_task);
      const TemplateComms::Participant& to = participant(program, e.to_instance, e.to_task);
      if ((from.row < 0) == (to.row < 0)) continue;
      const auto row = [&](std::uint32_t instance, const TemplateComms::Participant& participant) -> Comms& {
        return rows[first[instance] + static_cast<std::size_t>(participant.row)];
      };
      if (to.row >= 0) start_after(row(e.to_instance, to), to, base[e.from_instance] + e.from_task);
      else settle(row(e.from_instance, from), from, base[e.to_instance] + e.to_task);
    }
    settle(rows);
    return rows;
  }

 private:
  static void raise(std::int64_t& value, std::int64_t to) { value = std::max(value, to); }
  static void lower(std::int64_t& value, std::int64_t to) { value = std::min(value, to); }

  std::size_t lane(const Task& task) const { return lanes_[static_cast<std::size_t>(task.stream)]; }

  static void start_after(Comms& c, const TemplateComms::Participant& participant, std::int64_t computation) {
    if (participant.first) raise(c.after, computation);
    raise(c.last_after, computation);
  }
  static void settle(Comms& c, const TemplateComms::Participant& participant, std::int64_t computation) {
    if (participant.last) lower(c.settled, computation);
    lower(c.first_settled, computation);
  }

  TemplateComms of_template(std::size_t t) const {
    const auto& tasks = graph_.templates[t].tasks;
    TemplateComms out;
    out.participants.resize(tasks.size());
    std::size_t before = 0;  // the communication before, if there is one
    for (std::size_t i = 0; i < tasks.size(); ++i) {
      const auto& entry = communications_.entries[communications_.first_slot[t] + i];
      if (entry.message < 0) continue;
      const PortEnd end = 2 * communications_.messages[static_cast<std::size_t>(entry.message)].port + entry.receiver;
      const bool first = out.rows.empty() || out.rows.back().end != end;
      if (first) out.rows.push_back({end, static_cast<std::uint8_t>(lane(tasks[i]))});
      else out.participants[before].last = false;
      Comms& row = out.rows.back();
      row.settled = kNever;
      out.participants[i] = {static_cast<std::int32_t>(out.rows.size() - 1), first, true};
      for (const std::uint16_t d : tasks[i].deps)
        if (!is_communication(tasks[d].op)) start_after(row, out.participants[i], d);
      const auto waits = [&](const Task& later) { return !is_communication(later.op) && depends(later, i); };
      const auto later = std::find_if(tasks.begin() + static_cast<std::ptrdiff_t>(i) + 1, tasks.end(), waits);
      if (later != tasks.end()) settle(row, out.participants[i], later - tasks.begin());
      before = i;
    }
    return out;
  }

  static bool depends(const Task& task, std::size_t on) {
    return std::find(task.deps.begin(), task.deps.end(), on) != task.deps.end();
  }

  static Comms placed(Comms c, std::int64_t base) {
    if (c.after >= 0) c.after += base;
    if (c.last_after >= 0) c.last_after += base;
    if (c.settled != kNever) c.settled += base;
    if (c.first_settled != kNever) c.first_settled += base;
    return c;
  }

  const TemplateComms::Participant& participant(const Program& program, std::uint32_t instance, std::uint16_t task) const {
    const std::vector<TemplateComms::Participant>& participants =
        in_template_[program.instances[instance].tmpl.index()].participants;
    require(task < participants.size(), "an edge names no task of its instance");
    return participants[task];
  }

  /// On a lane a later communication begins after the earlier ones, so what waits for it has waited for them.
  static void settle(std::vector<Comms>& rows) {
    std::array<std::int64_t, kStreams> known;
    known.fill(kNever);
    for (auto c = rows.rbegin(); c != rows.rend(); ++c) {
      lower(c->settled, known[c->lane]);
      lower(known[c->lane], c->first_settled);
    }
  }

  const TaskGraph& graph_;
  const Communications& communications_;
  const LaneOfStream& lanes_;
  std::vector<TemplateComms> in_template_;
};

}  // namespace

Exclusion::Exclusion(const TaskGraph& graph, const Communications& communications, const LaneOfStream& lanes)
    : ends_(2 * communications.ports.size()), together_(graph.programs.size() * ends_ * ends_, 0) {
  const Study study(graph, communications, lanes);
  for (std::size_t s = 0; s < graph.programs.size(); ++s) {
    // An end is always on one lane, and few ends occur.
    struct Seen {
      PortEnd end;
      std::uint8_t lane;
      std::int64_t settled;
    };
    std::vector<Seen> seen;
    std::size_t before = SIZE_MAX;  // index in `seen` of the communications before
    std::array<std::int64_t, kStreams> ended;  // by lane: the last computation that its communications so far waited for
    ended.fill(-1);
    for (const Comms& c : study.of_program(graph.programs[s])) {
      const std::int64_t after = std::max(ended[c.lane], c.after);
      ended[c.lane] = std::max(ended[c.lane], c.last_after);
      if (before < seen.size() && seen[before].end == c.end) {
        // A lane never goes back: all that run beside these ran beside the ones before.
        seen[before].settled = std::max(seen[before].settled, c.settled);
        continue;
      }
      Seen* own = nullptr;
      for (Seen& other : seen) {
        if (other.end == c.end) own = &other;
        if (other.settled > after && other.lane != c.lane)
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
