#include "models/ops/collective.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "models/base/error.hpp"
#include "models/ops/collective_bytes.hpp"

namespace tandem {
namespace {

using Members = std::vector<std::int32_t>;

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

Collective with(Collective op, CollectiveKind kind, std::int64_t elements) {
  op.kind = kind;
  op.elements = elements;
  return op;
}

Bytes piece(const Collective& op, std::int64_t n) { return bytes_of(op.dtype, ceil_div(op.elements, n)); }

/// Every member sends to the one `shift` places on.
std::vector<Flow> rotate(std::int64_t n, std::int64_t shift) {
  std::vector<Flow> flows;
  for (std::int64_t i = 0; i < n; ++i)
    flows.push_back({static_cast<std::int32_t>(i), static_cast<std::int32_t>((i + shift) % n)});
  return flows;
}

std::vector<Flow> all_pairs(std::int64_t n) {
  std::vector<Flow> flows;
  for (std::int32_t i = 0; i < n; ++i)
    for (std::int32_t j = 0; j < n; ++j)
      if (i != j) flows.push_back({i, j});
  return flows;
}

/// n-1 exchanges, each with another partner.
std::vector<CommPhase> pairwise(const Collective& op, std::int64_t n) {
  std::vector<CommPhase> phases;
  for (std::int64_t shift = 1; shift < n; ++shift) phases.push_back({1, piece(op, n), rotate(n, shift)});
  return phases;
}

/// A broadcast by ring is a chain that forwards n pieces: (n-2+n) steps.
std::vector<CommPhase> ring(const Collective& op, std::int64_t n) {
  if (op.kind == CollectiveKind::all_to_all) return pairwise(op, n);
  CommPhase phase{ring_steps(op.kind, n), piece(op, n), rotate(n, 1)};
  if (op.kind == CollectiveKind::broadcast) phase.flows.pop_back();
  return {phase};
}

std::vector<CommPhase> two_way_ring(const Collective& op, std::int64_t n) {
  const bool one_way = op.kind == CollectiveKind::all_to_all || op.kind == CollectiveKind::broadcast || n == 2;
  if (one_way) return ring(op, n);
  CommPhase phase{ring_steps(op.kind, n), piece(op, 2 * n), rotate(n, 1)};
  const std::vector<Flow> back = rotate(n, n - 1);
  phase.flows.insert(phase.flows.end(), back.begin(), back.end());
  return {phase};
}

std::vector<CommPhase> direct(const Collective& op, std::int64_t n) {
  if (op.kind == CollectiveKind::broadcast) {
    CommPhase phase{1, payload(op), {}};
    for (std::int32_t i = 1; i < n; ++i) phase.flows.push_back({0, i});
    return {phase};
  }
  return {CommPhase{rounds(op.kind), piece(op, n), all_pairs(n)}};
}

/// Largest power of two that is not above n.
std::int64_t power_below(std::int64_t n) {
  std::int64_t p = 1;
  while (2 * p <= n) p *= 2;
  return p;
}

/// The first `p` members (a power of two) each exchange `bytes` with the one `distance` away.
CommPhase by_pairs(std::int64_t p, std::int64_t distance, Bytes bytes) {
  CommPhase phase{1, bytes, {}};
  for (std::int64_t i = 0; i < p; ++i)
    phase.flows.push_back({static_cast<std::int32_t>(i), static_cast<std::int32_t>(i ^ distance)});
  return phase;
}

/// Members beyond the first `p` send their data to a partner first, and receive the result last.
std::vector<CommPhase> through_partners(std::vector<CommPhase> phases, std::int64_t p, std::int64_t n, Bytes first, Bytes last) {
  if (p == n) return phases;
  CommPhase in{1, first, {}}, out{1, last, {}};
  for (auto i = static_cast<std::int32_t>(p); i < n; ++i) {
    const auto partner = i - static_cast<std::int32_t>(p);
    in.flows.push_back({i, partner});
    out.flows.push_back({partner, i});
  }
  phases.insert(phases.begin(), in);
  phases.push_back(out);
  return phases;
}

std::vector<CommPhase> doubling(const Collective& op, std::int64_t n) {
  const std::int64_t p = power_below(n);
  std::vector<CommPhase> phases;
  for (std::int64_t distance = 1; distance < p; distance *= 2) phases.push_back(by_pairs(p, distance, payload(op)));
  return through_partners(std::move(phases), p, n, payload(op), payload(op));
}

/// Each member sends half of its data to a partner half of the group away, then recursively down to one piece; or the reverse.
std::vector<CommPhase> halving_doubling(const Collective& op, std::int64_t n) {
  const bool scatters = op.kind != CollectiveKind::all_gather, gathers = op.kind != CollectiveKind::reduce_scatter;
  const std::int64_t p = power_below(n);
  std::vector<CommPhase> halving, phases;
  for (std::int64_t distance = p / 2; distance > 0; distance /= 2)
    halving.push_back(by_pairs(p, distance, piece(op, p) * distance));
  if (scatters) phases = halving;
  if (gathers) phases.insert(phases.end(), halving.rbegin(), halving.rend());
  return through_partners(std::move(phases), p, n, scatters ? payload(op) : piece(op, n), gathers ? payload(op) : piece(op, n));
}

/// Bruck: in step k each member sends all it has so far over a distance of 2^k. A scatter is the reverse of a gather.
std::vector<CommPhase> bruck(const Collective& op, std::int64_t n) {
  std::vector<CommPhase> phases;
  for (std::int64_t distance = 1; distance < n; distance *= 2)
    phases.push_back({1, piece(op, n) * std::min(distance, n - distance), rotate(n, n - distance)});
  if (op.kind == CollectiveKind::reduce_scatter) std::reverse(phases.begin(), phases.end());
  return phases;
}

/// Bruck's exchange: in step k go the pieces whose distance has bit k.
std::vector<CommPhase> bruck_exchange(const Collective& op, std::int64_t n) {
  std::vector<CommPhase> phases;
  for (std::int64_t bit = 1; bit < n; bit *= 2) {
    std::int64_t pieces = 0;
    for (std::int64_t i = 0; i < n; ++i) pieces += (i & bit) != 0;
    phases.push_back({1, piece(op, n) * pieces, rotate(n, bit)});
  }
  return phases;
}

std::vector<CommPhase> binomial(const Collective& op, std::int64_t n) {
  std::vector<CommPhase> phases;
  for (std::int64_t have = 1; have < n; have *= 2) {
    CommPhase phase{1, payload(op), {}};
    for (std::int64_t i = 0; i < have && i + have < n; ++i)
      phase.flows.push_back({static_cast<std::int32_t>(i), static_cast<std::int32_t>(i + have)});
    phases.push_back(phase);
  }
  return phases;
}

std::vector<CommPhase> tree(const Collective& op, std::int64_t n) {
  switch (op.kind) {
    case CollectiveKind::all_reduce: return doubling(op, n);
    case CollectiveKind::broadcast: return binomial(op, n);
    case CollectiveKind::all_to_all: return bruck_exchange(op, n);
    case CollectiveKind::all_gather:
    case CollectiveKind::reduce_scatter:
    case CollectiveKind::shift: break;
  }
  return bruck(op, n);
}

/// Phases of one group whose members are numbered as the ring visits them.
std::vector<CommPhase> flat(const Collective& op, Algorithm algorithm, std::int64_t n) {
  if (n == 1) return {};
  switch (algorithm) {
    case Algorithm::ring: return ring(op, n);
    case Algorithm::two_way_ring: return two_way_ring(op, n);
    case Algorithm::direct: return direct(op, n);
    case Algorithm::tree: return tree(op, n);
    case Algorithm::halving_doubling:
      if (op.kind == CollectiveKind::broadcast) return binomial(op, n);
      return op.kind == CollectiveKind::all_to_all ? pairwise(op, n) : halving_doubling(op, n);
    case Algorithm::hierarchical:
    case Algorithm::multi_ring: break;
  }
  throw ContractError("a collective that knows of nodes has no flat form");
}

/// Phases of several groups that run at the same time.
void append(std::vector<CommPhase>& out, const std::vector<CommPhase>& phases, const std::vector<Members>& groups, Tier tier) {
  for (const CommPhase& p : phases) {
    CommPhase all{p.steps, p.bytes, {}, tier};
    all.flows.reserve(p.flows.size() * groups.size());
    for (const Members& g : groups)
      for (const Flow& f : p.flows)
        all.flows.push_back({g[static_cast<std::size_t>(f.from)], g[static_cast<std::size_t>(f.to)]});
    out.push_back(std::move(all));
  }
}

Members visiting_order(const GroupShape& shape) {
  if (!shape.ring.empty()) return shape.ring;
  Members order(shape.node.size());
  std::iota(order.begin(), order.end(), 0);
  return order;
}

/// Members of every node, nodes and members in ring order.
std::vector<Members> by_node(const GroupShape& shape) {
  std::vector<Members> groups;
  std::map<std::int32_t, std::size_t> where;
  for (std::int32_t i : visiting_order(shape)) {
    const auto [at, added] = where.try_emplace(shape.node[static_cast<std::size_t>(i)], groups.size());
    if (added) groups.emplace_back();
    groups[at->second].push_back(i);
  }
  return groups;
}

/// Groups of members with the same index in their nodes: one ring over the nodes for each.
std::vector<Members> rails(const std::vector<Members>& nodes) {
  std::vector<Members> out(nodes.front().size());
  for (const Members& node : nodes)
    for (std::size_t l = 0; l < node.size(); ++l) out[l].push_back(node[l]);
  return out;
}

/// The three parts of a hierarchical collective, where it has them.
struct Tiers {
  std::vector<Members> nodes, across;
  Algorithm inside;
  std::int64_t per_node() const { return static_cast<std::int64_t>(nodes.front().size()); }
  std::int64_t count() const { return static_cast<std::int64_t>(nodes.size()); }
};

void add_inside(std::vector<CommPhase>& out, const Tiers& t, const Collective& op) {
  append(out, flat(op, op.kind == CollectiveKind::broadcast ? Algorithm::tree : t.inside, t.per_node()), t.nodes,
         Tier::inside);
}
void add_across(std::vector<CommPhase>& out, const Tiers& t, const Collective& op) {
  append(out, flat(op, Algorithm::ring, t.count()), t.across, Tier::across);
}

std::vector<CommPhase> hierarchical(const Collective& op, const Tiers& t) {
  using enum CollectiveKind;
  const std::int64_t part = ceil_div(op.elements, t.per_node());
  std::vector<CommPhase> out;
  switch (op.kind) {
    case all_reduce:
      add_inside(out, t, with(op, reduce_scatter, op.elements));
      add_across(out, t, with(op, all_reduce, part));
      add_inside(out, t, with(op, all_gather, op.elements));
      break;
    case reduce_scatter:
      add_inside(out, t, op);
      add_across(out, t, with(op, reduce_scatter, part));
      break;
    case all_gather:
      add_across(out, t, with(op, all_gather, part));
      add_inside(out, t, op);
      break;
    case broadcast:
      append(out, flat(op, Algorithm::tree, t.count()), {t.across.front()}, Tier::across);
      add_inside(out, t, op);
      break;
    case all_to_all:
      add_inside(out, t, op);
      add_across(out, t, op);
      break;
    case shift: break;  // has one algorithm only
  }
  return out;
}

/// A node's members in the order of the `way`-th of several rings. Rings enter and leave at different members: up the
/// node from the own member to the one before it or, in every other node, down from that one. So a ring stays on its rail
/// between two nodes. If all pairs of members have a link (`meshed`), a ring zigzags, and rings share almost no links.
Members way_through(const Members& node, std::size_t way, std::size_t rings, bool down, bool meshed) {
  const std::size_t n = node.size(), first = down && !meshed ? (way + rings - 1) % rings : way;
  const auto to_and_fro = [n](std::size_t i) { return i % 2 == 1 ? (i + 1) / 2 : n - i / 2; };
  Members out;
  for (std::size_t i = 0; i < n; ++i) out.push_back(node[(first + (meshed ? to_and_fro(i) : down ? n - i : i)) % n]);
  return out;
}

/// Rings through all members, as many as every node has ways in and out. All-to-alls and broadcasts have one.
Expansion multi_ring(const Collective& op, const std::vector<Members>& nodes, const Members& order, bool meshed) {
  std::size_t rings = order.size();
  for (const Members& node : nodes) rings = std::min(rings, node.size());
  const auto n = static_cast<std::int64_t>(order.size());
  Expansion out;
  if (nodes.size() == 1 || op.kind == CollectiveKind::all_to_all || op.kind == CollectiveKind::broadcast) {
    append(out.phases, flat(op, Algorithm::ring, n), {order}, Tier::any);
    return out;
  }
  CommPhase inside{ring_steps(op.kind, n), piece(op, n * static_cast<std::int64_t>(rings)), {}, Tier::inside};
  CommPhase across{inside.steps, inside.bytes, {}, Tier::across};
  for (std::size_t way = 0; way < rings; ++way) {
    Members ring;
    std::vector<bool> leaves;
    for (std::size_t k = 0; k < nodes.size(); ++k) {
      const Members through = way_through(nodes[k], way, rings, k % 2 == 1, meshed);
      ring.insert(ring.end(), through.begin(), through.end());
      leaves.resize(ring.size(), false);
      leaves.back() = true;
    }
    for (std::size_t i = 0; i < ring.size(); ++i)
      (leaves[i] ? across : inside).flows.push_back({ring[i], ring[(i + 1) % ring.size()]});
  }
  if (!inside.flows.empty()) out.phases.push_back(std::move(inside));
  out.phases.push_back(std::move(across));
  out.pipelined = true;
  return out;
}

/// Copies of tokens, as DeepSeek-V3's kernels send them (arXiv 2412.19437 section 3.2.2): between nodes to the
/// member at the same place, there on to every rank that asks for it, piece by piece; sums come back the same way. Where nodes have
/// unlike numbers of members, every rank gets a copy of its own.
Expansion copies(const Collective& op, const GroupShape& shape) {
  const std::int64_t n = shape.size();
  const auto part = [&](std::int64_t parts) { return copied_bytes(op, parts); };
  const std::int64_t per_node = uniform(shape);
  Expansion out;
  if (per_node == 0 || per_node == 1) {
    out.phases = {{1, part(n), all_pairs(n), Tier::any}};
    return out;
  }
  const std::vector<Members> nodes = by_node(shape);
  const auto count = static_cast<std::int64_t>(nodes.size());
  append(out.phases, {{1, part(n) * count, all_pairs(per_node)}}, nodes, Tier::inside);
  if (count > 1) append(out.phases, {{1, part(count), all_pairs(count)}}, rails(nodes), Tier::across);
  out.pipelined = true;
  return out;
}

Algorithm inside_algorithm(ScaleUp scale_up) {
  switch (scale_up) {
    case ScaleUp::crossbar:
    case ScaleUp::cube_mesh:
    case ScaleUp::shared_memory:
    case ScaleUp::pcie: return Algorithm::ring;
    case ScaleUp::full_mesh: return Algorithm::direct;
    case ScaleUp::torus: return Algorithm::two_way_ring;
  }
  throw ContractError("unknown kind of node");
}

}  // namespace

std::string_view name(Algorithm a) {
  switch (a) {
    case Algorithm::ring: return "ring";
    case Algorithm::two_way_ring: return "two_way_ring";
    case Algorithm::direct: return "direct";
    case Algorithm::tree: return "tree";
    case Algorithm::hierarchical: return "hierarchical";
    case Algorithm::halving_doubling: return "halving_doubling";
    case Algorithm::multi_ring: return "multi_ring";
  }
  throw ContractError("unknown algorithm");
}

std::string_view name(ScaleUp s) {
  switch (s) {
    case ScaleUp::crossbar: return "crossbar";
    case ScaleUp::full_mesh: return "full_mesh";
    case ScaleUp::torus: return "torus";
    case ScaleUp::cube_mesh: return "cube_mesh";
    case ScaleUp::shared_memory: return "shared_memory";
    case ScaleUp::pcie: return "pcie";
  }
  throw ContractError("unknown kind of node");
}

std::string_view name(CollectiveKind k) {
  switch (k) {
    case CollectiveKind::all_reduce: return "all_reduce";
    case CollectiveKind::all_gather: return "all_gather";
    case CollectiveKind::reduce_scatter: return "reduce_scatter";
    case CollectiveKind::broadcast: return "broadcast";
    case CollectiveKind::all_to_all: return "all_to_all";
    case CollectiveKind::shift: return "shift";
  }
  throw ContractError("unknown collective");
}

std::string_view communication_name(const Op& op) {
  if (const auto* c = std::get_if<Collective>(&op)) return name(c->kind);
  require(is_communication(op), "only communication has a communication name");
  return kind_name(op);
}

Expansion expand(const Collective& op, Algorithm algorithm, const GroupShape& shape, Algorithm inside) {
  require(shape.size() > 0, "a collective needs members");
  require(shape.ring.empty() || shape.ring.size() == shape.node.size(), "a ring visits every member once");
  Expansion out;
  if (shape.size() == 1) return out;
  if (op.kind == CollectiveKind::shift) {  // to the next member, whatever the ring would visit next
    out.phases = {{1, payload(op), rotate(shape.size(), 1)}};
    return out;
  }
  if (op.copies.experts > 0) return copies(op, shape);
  if (algorithm == Algorithm::multi_ring)
    return multi_ring(op, by_node(shape), visiting_order(shape), inside == Algorithm::direct);
  if (algorithm != Algorithm::hierarchical) {
    append(out.phases, flat(op, algorithm, shape.size()), {visiting_order(shape)}, Tier::any);
    return out;
  }
  require(uniform(shape) > 0, "a hierarchical collective needs as many members on every node");
  const std::vector<Members> nodes = by_node(shape);
  return {hierarchical(op, {nodes, rails(nodes), inside}), true};
}

std::int64_t uniform(const GroupShape& shape) {
  std::vector<std::int32_t> nodes = shape.node;
  if (!std::is_sorted(nodes.begin(), nodes.end())) std::sort(nodes.begin(), nodes.end());
  std::int64_t per_node = 0;
  for (auto first = nodes.begin(); first != nodes.end();) {
    const auto end = std::find_if(first, nodes.end(), [&](std::int32_t n) { return n != *first; });
    if (per_node != 0 && end - first != per_node) return 0;
    per_node = end - first;
    first = end;
  }
  return per_node;
}

Choice choose_algorithm(ScaleUp scale_up, const Collective& op, const GroupShape& shape) {
  const Algorithm inside = inside_algorithm(scale_up);
  const std::int64_t per_node = uniform(shape);
  const bool one_node = per_node == shape.size();
  if (op.kind == CollectiveKind::broadcast) return {Algorithm::tree, inside};
  if (op.kind == CollectiveKind::shift) return {Algorithm::ring, inside};
  if (op.kind == CollectiveKind::all_to_all) return {Algorithm::direct, inside};
  if (one_node) return {inside, inside};
  if (per_node == 0) return {Algorithm::multi_ring, inside};
  return {per_node > 1 ? Algorithm::hierarchical : Algorithm::ring, inside};
}

}  // namespace tandem
