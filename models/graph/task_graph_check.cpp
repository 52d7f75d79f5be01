// Checks every invariant of a task graph without trusting its builder.

#include <algorithm>
#include <map>

#include "models/base/error.hpp"
#include "models/graph/deadlock.hpp"
#include "models/graph/host_activations.hpp"
#include "models/graph/host_arena.hpp"
#include "models/graph/program_index.hpp"

namespace tandem {
namespace {

[[noreturn]] void fail(const std::string& what) { throw ContractError("task graph: " + what); }

/// For each stream, the last task that is known to have ended when a task starts.
using Clock = std::array<std::int64_t, kStreams>;

constexpr std::array<std::int64_t, kStreams> nobody() {
  std::array<std::int64_t, kStreams> all{};
  for (std::int64_t& t : all) t = -1;
  return all;
}

/// Last writer and readers of each range of arena bytes.
class ByteMap {
 public:
  struct State {
    std::int64_t writer = -1;                ///< task, -1: nobody in this step
    bool defined = false;                    ///< holds a value that may be read
    std::array<std::int64_t, kStreams> readers = nobody();
  };
  explicit ByteMap(std::int64_t bytes) { states_[0] = {}; states_[bytes] = {}; }

  template <class F>
  void visit(std::int64_t begin, std::int64_t end, F&& f) {
    split(begin);
    split(end);
    for (auto it = states_.find(begin); it != states_.end() && it->first < end; ++it) f(it->second);
  }

 private:
  void split(std::int64_t at) {
    const auto next = states_.upper_bound(at);
    const auto here = std::prev(next);
    if (here->first != at) states_[at] = here->second;
  }
  std::map<std::int64_t, State> states_;
};

class ProgramCheck {
 public:
  ProgramCheck(const TaskGraph& graph, const Program& program)
      : graph_(graph), program_(program), index_(graph, program), bytes_(program.memory.arena_bytes.count() + 1) {}

  void run() {
    check_edges_sorted();
    define_persistent();
    for (std::size_t t = 0; t < index_.size(); ++t) {
      begin_allocations(t);
      advance_clock(t);
      for (const Operand& o : index_.task(t).inputs) read(t, o);
      for (const Operand& o : index_.task(t).outputs) write(t, o);
    }
  }

 private:
  void check_edges_sorted() const {
    const auto& e = program_.edges;
    const bool sorted = std::is_sorted(e.begin(), e.end(), [](const Edge& a, const Edge& b) {
      return std::pair(a.to_instance, a.to_task) < std::pair(b.to_instance, b.to_task);
    });
    if (!sorted) fail("edges are not in order of their target");
  }

  /// Weights, optimizer states and the batch exist before the step; gradients do not.
  void define_persistent() {
    const auto last = static_cast<std::uint32_t>(program_.instances.size() - 1);
    for (const Allocation& a : program_.memory.allocations) {
      const bool persistent = a.first == 0 && a.last == last;
      const bool given = a.kind == MemoryKind::weights || a.kind == MemoryKind::optimizer || a.name == "tokens" ||
                         a.name == "types" || a.name == "targets" || a.name == "decoder_tokens" || a.name == "labels" || a.name == "mtp_tokens" ||
                         a.name == "mtp_targets";
      if (persistent && given) define(a.offset, a.offset + a.bytes.count());
    }
  }
  void define(std::int64_t begin, std::int64_t end) {
    bytes_.visit(begin, end, [](ByteMap::State& s) { s.defined = true; });
  }
  /// A new tensor is undefined, whatever its bytes held before.
  void begin_allocations(std::size_t t) {
    if (index_.task_number(t) != 0) return;
    forget_scratch();
    if (by_start_.empty())
      for (const Allocation& a : program_.memory.allocations) by_start_.emplace(a.first, &a);
    const auto [begin, end] = by_start_.equal_range(index_.instance(t));
    for (auto it = begin; it != end; ++it) {
      const Allocation& a = *it->second;
      const bool persistent = a.first == 0 && a.last + 1 == program_.instances.size();
      if (!persistent) undefine(a);
    }
  }

  void forget_scratch() {
    for (const Allocation& a : program_.memory.allocations)
      if (a.name == "scratch") undefine(a);
  }
  void undefine(const Allocation& a) {
    bytes_.visit(a.offset, a.offset + a.bytes.count(), [](ByteMap::State& s) { s.defined = false; });
  }

  void advance_clock(std::size_t t) {
    const auto s = static_cast<std::size_t>(index_.task(t).stream);
    Clock clock = stream_clock_[s];
    for (const std::uint32_t d : index_.deps(t))
      for (std::size_t k = 0; k < kStreams; ++k) clock[k] = std::max(clock[k], clocks_[d][k]);
    now_ = clock;
    clock[s] = static_cast<std::int64_t>(t);
    clocks_.push_back(clock);
    stream_clock_[s] = clock;
  }
  /// Whether task `before` has surely ended when the current one starts.
  bool ended(std::int64_t before) const {
    return before < 0 || now_[static_cast<std::size_t>(index_.task(static_cast<std::size_t>(before)).stream)] >= before;
  }

  std::pair<std::int64_t, std::int64_t> range(std::size_t t, const Operand& o) const {
    const Instance& i = index_.instance_of(t);
    const std::int64_t size = o.span();  // bytes of every rank's share
    if (o.offset + size > graph_.of(i).slots[o.slot].bytes.count()) fail(index_.describe(t) + " reaches outside its slot");
    const std::int64_t begin = program_.bindings[i.binding + o.slot] + o.offset;
    if (begin < 0 || begin + size > program_.memory.arena_bytes.count())
      fail(index_.describe(t) + " reaches outside the arena");
    return {begin, begin + size};
  }

  void read(std::size_t t, const Operand& o) {
    const auto [begin, end] = range(t, o);
    const auto stream = static_cast<std::size_t>(index_.task(t).stream);
    bytes_.visit(begin, end, [&](ByteMap::State& s) {
      if (!s.defined) fail(index_.describe(t) + " reads bytes that nothing wrote");
      if (s.writer >= 0 && s.writer != static_cast<std::int64_t>(t) && !ended(s.writer))
        fail(index_.describe(t) + " may read before " + index_.describe(static_cast<std::size_t>(s.writer)) + " wrote");
      s.readers[stream] = static_cast<std::int64_t>(t);
    });
  }
  void write(std::size_t t, const Operand& o) {
    const auto [begin, end] = range(t, o);
    bytes_.visit(begin, end, [&](ByteMap::State& s) {
      for (const std::int64_t r : s.readers)
        if (r != static_cast<std::int64_t>(t) && !ended(r))
          fail(index_.describe(t) + " may overwrite what " + index_.describe(static_cast<std::size_t>(r)) + " reads");
      if (s.writer != static_cast<std::int64_t>(t) && !ended(s.writer))
        fail(index_.describe(t) + " may overwrite what " + index_.describe(static_cast<std::size_t>(s.writer)) + " writes");
      s = {static_cast<std::int64_t>(t), true, nobody()};
    });
  }

  static std::array<Clock, kStreams> no_clocks() {
    std::array<Clock, kStreams> all;
    all.fill(nobody());
    return all;
  }

  const TaskGraph& graph_;
  const Program& program_;
  ProgramIndex index_;
  ByteMap bytes_;
  std::multimap<std::uint32_t, const Allocation*> by_start_;
  std::vector<Clock> clocks_;
  std::array<Clock, kStreams> stream_clock_ = no_clocks();
  Clock now_{};
};

/// Sends or receives of a stage on one channel, in order. Equal sequences mean that both ends agree.
using MessageTexts = std::vector<std::string>;

template <class F>
MessageTexts messages_of(const TaskGraph& graph, const Program& program, F&& describe) {
  MessageTexts messages;
  for (const Instance& i : program.instances)
    for (const Task& t : graph.of(i).tasks)
      if (const std::string s = describe(t.op); !s.empty())
        messages.push_back(s + " micro-batch " + std::to_string(i.micro_batch));
  return messages;
}

MessageTexts collectives(const TaskGraph& graph, const Program& program, Group group) {
  return messages_of(graph, program, [&](const Op& op) -> std::string {
    const auto* c = std::get_if<Collective>(&op);
    if (!c || c->group != group) return "";
    return std::to_string(static_cast<int>(c->kind)) + " of " + std::to_string(c->elements) + " " +
           std::string(name(c->dtype)) + " reduce " + std::to_string(static_cast<int>(c->reduce));
  });
}

template <class Transfer>
MessageTexts transfers(const TaskGraph& graph, const Program& program, int offset) {
  return messages_of(graph, program, [&](const Op& op) -> std::string {
    const auto* x = std::get_if<Transfer>(&op);
    return x && x->stage_offset == offset ? std::to_string(x->elements) + " " + std::string(name(x->dtype)) : "";
  });
}

void check_messages(const MessageTexts& a, const MessageTexts& b, const std::string& what) {
  if (a != b) fail(what + " do not match");
}

void check_communication(const TaskGraph& graph) {
  const auto& p = graph.programs;
  for (std::size_t s = 0; s < p.size() && p.size() > 1; ++s) {
    const std::size_t next = (s + 1) % p.size();  // chunks of an interleaved schedule pass from the last stage to the first
    const std::string between = "between stages " + std::to_string(s) + " and " + std::to_string(next);
    check_messages(transfers<Send>(graph, p[s], 1), transfers<Recv>(graph, p[next], -1), "activations " + between);
    check_messages(transfers<Send>(graph, p[next], -1), transfers<Recv>(graph, p[s], 1), "gradients " + between);
    for (const Group g : {Group::model, Group::pipeline, Group::world})
      check_messages(collectives(graph, p[s], g), collectives(graph, p[next], g),
                 "collectives of the " + std::string(name(g)) + " group " + between);
  }
  const auto check_sharing = [&](const std::vector<std::size_t>& stages, Group g) {
    for (const std::size_t s : stages)
      check_messages(collectives(graph, p[stages.front()], g), collectives(graph, p[s], g),
                 "collectives of the " + std::string(name(g)) + " group");
  };
  check_sharing(word_stages(graph), Group::embedding);
  check_sharing(position_stages(graph), Group::position);
}

void check_plays(const TaskGraph& graph) {
  if (const auto stuck = find_deadlock(graph, Host::launches)) fail("deadlock with independent streams:\n" + *stuck);
  if (const auto stuck = find_deadlock(graph, Host::computes)) fail("deadlock with a host that computes:\n" + *stuck);
}

}  // namespace

void TaskGraph::check() const {
  require(!programs.empty(), "a task graph has at least one program");
  for (const Program& p : programs) {
    ProgramCheck(*this, p).run();
    HostArena(*this, p);
    HostActivations(*this, p);
  }
  check_communication(*this);
  check_plays(*this);
}

}  // namespace tandem
