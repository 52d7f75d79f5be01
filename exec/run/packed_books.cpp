#include "exec/run/packed_books.hpp"

namespace tandem::exec {
namespace {

/// An entry of issue_order or stream_order, as a trivially copyable type.
struct OrderedTask {
  std::uint32_t instance;
  std::uint16_t task;
};
using Order = std::vector<std::pair<std::uint32_t, std::uint16_t>>;

void pack_order(Packer& to, const Order& order) {
  std::vector<OrderedTask> tasks;
  for (const auto& [instance, task] : order) tasks.push_back({instance, task});
  to.add(tasks);
}

Order unpack_order(Unpacker& from) {
  Order order;
  for (const OrderedTask& t : from.get_vector<OrderedTask>()) order.emplace_back(t.instance, t.task);
  return order;
}

void pack_comm(Packer& to, const CommCounters& c) {
  to.add(c.sends).add(c.sent_bytes).add(c.collectives.size());
  for (const auto& [key, line] : c.collectives) to.add(key.first).add(key.second).add(line);
}

CommCounters unpack_comm(Unpacker& from) {
  CommCounters c;
  c.sends = from.get<std::int64_t>();
  c.sent_bytes = from.get<std::int64_t>();
  for (auto lines = from.get<std::size_t>(); lines > 0; --lines) {
    const auto kind = from.get<CollectiveKind>();
    const auto group = from.get<Group>();
    c.collectives[{kind, group}] = from.get<CommCounters::Line>();
  }
  return c;
}

}  // namespace

void pack(Packer& to, const RankBooks& b) {
  to.add(b.backend).add(b.arena_bytes).add(b.host_arena_bytes).add(b.arena_touched_bytes);
  pack_comm(to, b.comm);
  pack_order(to, b.issue_order);
  to.add(b.stream_order.size());
  for (const Order& o : b.stream_order) pack_order(to, o);
}

RankBooks unpack_books(Unpacker& from) {
  RankBooks b;
  b.backend = from.get<BackendCounters>();
  b.arena_bytes = from.get<std::int64_t>();
  b.host_arena_bytes = from.get<std::int64_t>();
  b.arena_touched_bytes = from.get<std::int64_t>();
  b.comm = unpack_comm(from);
  b.issue_order = unpack_order(from);
  for (auto streams = from.get<std::size_t>(); streams > 0; --streams) b.stream_order.push_back(unpack_order(from));
  return b;
}

void pack(Packer& to, const Lane& lane) {
  to.add(lane.coords).add(lane.ranks).add(lane.spans).add(lane.arena_bytes).add(lane.routing.size());
  for (const RouterCounts& r : lane.routing) to.add(r.layer).add(r.micro_batch).add(r.counts);
}

Lane unpack_lane(Unpacker& from) {
  Lane lane;
  lane.coords = from.get<Coords>();
  lane.ranks = from.get_vector<std::int32_t>();
  lane.spans = from.get_vector<Span>();
  lane.arena_bytes = from.get<Bytes>();
  for (auto counts = from.get<std::size_t>(); counts > 0; --counts) {
    RouterCounts r;
    r.layer = from.get<decltype(r.layer)>();
    r.micro_batch = from.get<decltype(r.micro_batch)>();
    r.counts = from.get_vector<std::int32_t>();
    lane.routing.push_back(std::move(r));
  }
  return lane;
}

}  // namespace tandem::exec
