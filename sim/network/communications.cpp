#include "sim/network/communications.hpp"

#include <map>
#include <tuple>

namespace tandem::sim {
namespace {

/// Port, kind of collective (-1: send), elements and type; of replayed rows also their template, and whether they are returned.
using MessageKey = std::tuple<std::uint32_t, int, std::int64_t, DType, std::int32_t, bool>;

class Builder {
 public:
  Builder(Communications& out, bool replayed) : out_(out), replayed_(replayed) {}

  Communications::Entry entry(const Task& task, std::int32_t tmpl) {
    if (const auto* c = std::get_if<Collective>(&task.op))
      return {collective(*c, task.stream, replayed_ && c->row > 0 ? tmpl : -1), false};
    if (const auto* s = std::get_if<Send>(&task.op)) return {message(lane(s->stage_offset), *s, -1, s->dtype), false};
    if (const auto* r = std::get_if<Recv>(&task.op))
      return {message(lane(-r->stage_offset), Send{r->elements, r->dtype, -r->stage_offset}, -1, r->dtype), true};
    return {};
  }

  std::uint32_t port(const Port& p) {
    const auto [it, fresh] = ports_.try_emplace(p, static_cast<std::uint32_t>(out_.ports.size()));
    if (fresh) out_.ports.push_back(p);
    return it->second;
  }

 private:
  static Port lane(int offset) { return {Port::Kind::send, Group::pipeline, Stream::send, offset}; }

  std::int32_t collective(const Collective& c, Stream stream, std::int32_t tmpl) {
    const Port at{Port::Kind::collective, c.group, stream, 0};
    const DType travels = c.copies.experts > 0 ? c.copies.dtype : c.dtype;
    const std::int32_t m = message(at, c, static_cast<int>(c.kind), travels, tmpl, tmpl >= 0 && c.back);
    out_.messages[static_cast<std::size_t>(m)].tmpl = tmpl;
    return m;
  }

  template <class T>
  std::int32_t message(const Port& at, const T& op, int kind, DType travels, std::int32_t tmpl = -1, bool back = false) {
    const std::uint32_t p = port(at);
    const MessageKey key{p, kind, op.elements, travels, tmpl, back};
    const auto [it, fresh] = messages_.try_emplace(key, static_cast<std::int32_t>(out_.messages.size()));
    if (fresh) out_.messages.push_back({p, op, -1});
    return it->second;
  }

  Communications& out_;
  bool replayed_;
  std::map<Port, std::uint32_t> ports_;
  std::map<MessageKey, std::int32_t> messages_;
};

std::vector<std::uint32_t> templates_of(const Program& program, std::size_t templates) {
  std::vector<bool> seen(templates, false);
  for (const Instance& i : program.instances) seen[i.tmpl.index()] = true;
  std::vector<std::uint32_t> used;
  for (std::uint32_t t = 0; t < templates; ++t)
    if (seen[t]) used.push_back(t);
  return used;
}

}  // namespace

Communications list_communications(const TaskGraph& graph, bool replayed) {
  Communications out;
  Builder builder(out, replayed);
  for (std::size_t i = 0; i < graph.templates.size(); ++i) {
    out.first_slot.push_back(static_cast<std::uint32_t>(out.entries.size()));
    for (const Task& task : graph.templates[i].tasks)
      out.entries.push_back(builder.entry(task, static_cast<std::int32_t>(i)));
  }
  out.first_slot.push_back(static_cast<std::uint32_t>(out.entries.size()));
  for (const Program& p : graph.programs) out.templates.push_back(templates_of(p, graph.templates.size()));
  out.core_port = builder.port({Port::Kind::core, Group::world, Stream::compute, 0});
  return out;
}

}  // namespace tandem::sim
