#include "models/graph/deadlock.hpp"

#include <algorithm>
#include <deque>

#include "models/base/error.hpp"
#include "models/graph/program_index.hpp"

namespace tandem {
namespace {

/// One stage's progress. Ranks of a stage behave alike, so one represents all.
class Player {
 public:
  Player(const TaskGraph& graph, const Program& program, Host host)
      : index_(graph, program), host_(host), done_(index_.size(), false), started_(index_.size(), false) {}

  /// Hands tasks to streams as far as the host gets.
  void issue() {
    while (next_ < index_.size() && (last_inline_ == kNone || done_[last_inline_])) {
      queues_[stream(next_)].push_back(next_);
      last_inline_ = runs_inline(next_) ? next_ : kNone;
      ++next_;
    }
    while (next_start_ < next_ && starts(next_start_)) started_[next_start_++] = true;
  }

  /// The task at the head of a stream, if its dependencies are done.
  std::optional<std::size_t> ready(std::size_t s) const {
    if (queues_[s].empty()) return std::nullopt;
    const std::size_t t = queues_[s].front();
    if (host_ == Host::starts_in_order && communicates(t) && !started_[t]) return std::nullopt;
    return is_free(t) ? std::optional(t) : std::nullopt;
  }

  void finish(std::size_t s) {
    done_[queues_[s].front()] = true;
    queues_[s].pop_front();
    ++finished_;
  }

  bool finished() const { return finished_ == index_.size(); }
  const ProgramIndex& index() const { return index_; }

  std::string blocked() const {
    std::string s;
    for (const auto& q : queues_)
      if (!q.empty()) s += (s.empty() ? "" : "; ") + index_.describe(q.front()) + waits_for(q.front());
    return s;
  }

 private:
  static constexpr std::size_t kNone = static_cast<std::size_t>(-1);

  bool is_free(std::size_t t) const {
    const auto& deps = index_.deps(t);
    return std::all_of(deps.begin(), deps.end(), [&](std::uint32_t d) { return done_[d]; });
  }
  bool communicates(std::size_t t) const { return is_communication(index_.task(t).op); }
  /// Whether a task that was issued can start, where all before it that communicate have; computations are not held up.
  bool starts(std::size_t t) const {
    if (!communicates(t) || done_[t]) return true;
    const auto& queue = queues_[stream(t)];
    return !queue.empty() && queue.front() == t && is_free(t);
  }
  std::size_t stream(std::size_t t) const { return static_cast<std::size_t>(index_.task(t).stream); }
  bool runs_inline(std::size_t t) const {
    const Stream s = index_.task(t).stream;
    if (host_ == Host::serialised) return true;
    return host_ == Host::computes && s != Stream::send && s != Stream::recv;
  }
  std::string waits_for(std::size_t t) const {
    for (const std::uint32_t d : index_.deps(t))
      if (!done_[d]) return " waits for " + index_.describe(d);
    if (host_ == Host::starts_in_order && communicates(t) && !started_[t])
      return " waits for " + index_.describe(next_start_) + " to start";
    return communicates(t) ? " waits for its peer" : " waits for its stream";
  }

  ProgramIndex index_;
  Host host_;
  std::vector<bool> done_, started_;
  std::array<std::deque<std::size_t>, kStreams> queues_;
  std::size_t next_ = 0, next_start_ = 0, finished_ = 0, last_inline_ = kNone;
};

constexpr auto kSend = static_cast<std::size_t>(Stream::send);
constexpr auto kRecv = static_cast<std::size_t>(Stream::recv);

/// Stages that have a copy of a parameter.
std::vector<std::size_t> stages_with(const TaskGraph& graph, std::string_view name) {
  std::vector<std::size_t> stages;
  for (std::size_t s = 0; s < graph.programs.size(); ++s) {
    const auto& params = graph.programs[s].params;
    if (std::any_of(params.begin(), params.end(), [&](const Param& p) { return p.name == name; })) stages.push_back(s);
  }
  return stages;
}

class Table {
 public:
  Table(const TaskGraph& graph, Host host) : word_stages_(word_stages(graph)), position_stages_(position_stages(graph)) {
    for (const Program& p : graph.programs) players_.emplace_back(graph, p, host);
  }

  std::optional<std::string> play() {
    for (bool moved = true; moved;) {
      moved = false;
      for (std::size_t s = 0; s < players_.size(); ++s) {
        players_[s].issue();
        moved = local(s) || moved;
        moved = transfer(s, 1) || moved;
        moved = transfer(s, -1) || moved;
      }
      for (const Group g : {Group::pipeline, Group::model, Group::embedding, Group::position, Group::world})
        moved = shared(g) || moved;
    }
    return report();
  }

 private:
  /// Tasks that need no other stage: computation, and collectives among ranks of this stage.
  bool local(std::size_t s) {
    bool moved = false;
    for (std::size_t q = 0; q < kStreams; ++q)
      while (const auto t = players_[s].ready(q)) {
        if (!stays_on_stage(players_[s].index().task(*t).op)) break;
        players_[s].finish(q);
        players_[s].issue();
        moved = true;
      }
    return moved;
  }
  static bool stays_on_stage(const Op& op) {
    if (const auto* c = std::get_if<Collective>(&op)) return !crosses_stages(c->group);
    return !is_communication(op);
  }

  bool transfer(std::size_t from, int offset) {
    const auto stages = static_cast<std::ptrdiff_t>(players_.size());
    const auto to = (static_cast<std::ptrdiff_t>(from) + offset + stages) % stages;
    Player &a = players_[from], &b = players_[static_cast<std::size_t>(to)];
    const auto s = a.ready(kSend), r = b.ready(kRecv);
    if (!s || !r) return false;
    const auto* send = std::get_if<Send>(&a.index().task(*s).op);
    const auto* recv = std::get_if<Recv>(&b.index().task(*r).op);
    if (!send || !recv || send->stage_offset != offset || recv->stage_offset != -offset) return false;
    a.finish(kSend);
    b.finish(kRecv);
    return true;
  }

  /// A collective across stages: every member's stream head must be it.
  bool shared(Group group) {
    std::vector<std::pair<std::size_t, std::size_t>> heads;
    for (std::size_t s = 0; s < players_.size(); ++s) {
      if (!is_member(s, group)) continue;
      const std::size_t q = head_stream(players_[s], group);
      if (q == kStreams) return false;
      heads.emplace_back(s, q);
    }
    for (const auto& [s, q] : heads) players_[s].finish(q);
    return !heads.empty();
  }
  bool is_member(std::size_t stage, Group group) const {
    if (group != Group::embedding && group != Group::position) return true;
    const std::vector<std::size_t>& stages = group == Group::embedding ? word_stages_ : position_stages_;
    return std::find(stages.begin(), stages.end(), stage) != stages.end();
  }
  static std::size_t head_stream(const Player& p, Group group) {
    for (std::size_t q = 0; q < kStreams; ++q)
      if (const auto t = p.ready(q))
        if (const auto* c = std::get_if<Collective>(&p.index().task(*t).op))
          if (c->group == group) return q;
    return kStreams;
  }

  std::optional<std::string> report() const {
    std::string s;
    for (const Player& p : players_)
      if (!p.finished()) s += (s.empty() ? "" : "\n") + p.blocked();
    return s.empty() ? std::nullopt : std::optional(s);
  }

  std::vector<std::size_t> word_stages_, position_stages_;
  std::vector<Player> players_;
};

}  // namespace

std::vector<std::size_t> word_stages(const TaskGraph& graph) {
  const std::vector<std::size_t> stages = stages_with(graph, "embedding.word.weight");
  return stages.empty() ? std::vector<std::size_t>{0, graph.programs.size() - 1} : stages;
}

std::vector<std::size_t> position_stages(const TaskGraph& graph) { return stages_with(graph, "embedding.position.weight"); }

std::optional<std::string> find_deadlock(const TaskGraph& graph, Host host) { return Table(graph, host).play(); }

}  // namespace tandem
