// Where a plan's estimate may be wrong: shared links, a late host, late states.

#include <algorithm>
#include <cmath>

#include "sim/closed_form/step_estimate.hpp"

namespace tandem::sim::closed_form {
namespace {

/// Largest share of a step that communications with shared links may add if they all coincide. They seldom do: of 1,000 random
/// plans none was off by more than half of that (2026-11-24).
constexpr double kContended = 0.03;

/// Largest share of a step that copying the first states from the host may take.
constexpr double kArrival = 0.01;

}  // namespace

Outside StepEstimate::outside(Duration step, const std::vector<Tail>& tails) {
  if (shape_.pairs) return Outside::paired;
  if (host_bound()) return Outside::host;
  if (contended(step)) return Outside::contended;
  const auto late = [&](const Tail& t) { return static_cast<double>(t.host.arrival) > kArrival * static_cast<double>(step.ps()); };
  return std::any_of(tails.begin(), tails.end(), late) ? Outside::offloaded : Outside::nothing;
}

/// Whether shared links, or computations beside reductions that are not followed here, could add more than kContended to the step.
/// Overlap with tensor collectives counts in part, because these run for a part of the time.
bool StepEstimate::contended(Duration step) {
  if (t_ > in_.topology.devices_per_node()) return true;  // tensor collectives between nodes share all NICs
  const Op sums = collective(CollectiveKind::all_reduce, Group::data, layer_elements(), dtypes_.gradient_reduce);
  const Op tensor = collective(CollectiveKind::all_reduce, Group::tensor, in_.layer.boundary_elements, dtypes_.compute);
  const Op send = Send{in_.layer.boundary_elements, dtypes_.compute, 1};
  const Members tensor_group{0, 1, t_}, neighbours{0, stride_, 2, 1, stride_};
  std::int64_t longer = 0;
  if (d_ > 1) {
    if (in_.links.crowded(sums, data_groups(0), p_, stride_)) longer += way_ + gathered_first_;
    longer += std::llround(in_.cost.comm_fit().compute_slowdown * in_.layer.computing_share * static_cast<double>(gather_memory_));
    if (t_ > 1 && in_.links.meet(tensor, tensor_group, sums, data_groups(0))) longer += (beside_ + gathered_first_) / 4;
    // Other chunks' passes, weight passes and tensor ranks' sums overlap with reductions, and all slow each other.
    const bool sums_beside = t_ > 1 && (in_.shapes.sequence_parallel || in_.shapes.sum_beside_weights);
    const bool passes = v_ > 1 || split_backward_ || sums_beside;
    const double slowed = in_.cost.comm_fit().compute_slowdown * static_cast<double>(disturbed_);
    if (passes) longer += std::max<std::int64_t>(longer_, std::llround(slowed));
  }
  if (p_ > 1) {
    const std::int64_t transfer = *std::max_element(in_.scratch.times.transfer.begin(), in_.scratch.times.transfer.end());
    const std::int64_t sent = 2 * m_ * v_ * transfer;
    if (d_ > 1 && in_.links.meet(send, neighbours, sums, data_groups(0))) longer += p_ * transfer;
    if (in_.links.crowded(send, neighbours, p_ - 1, stride_)) longer += sent;
    if (t_ > 1 && in_.links.meet(tensor, tensor_group, send, neighbours)) longer += sent / 3;
    longer += m_ * v_ * in_.scratch.times.after_arrival;  // a host that has waited is late for the next tasks again
  }
  longer += beside_exchanges();
  // A gather can run ahead behind another micro-batch's pass and at the last turn. In the small plan of LayerTimes it cannot.
  if (in_.shapes.sequence_parallel)
    longer += (m_ + 1) * gather_time();
  if (split_backward_ && in_.shapes.sequence_parallel && m_ < 2 * p_) longer += step.ps() / 100;  // few weight passes hide sums
  return static_cast<double>(longer) > kContended * static_cast<double>(step.ps());
}

/// Whether the host may limit the step: launches take more than four fifths of a layer's time, so a late host cannot catch up. An
/// update that is recorded before it begins waits for the host, too, for an unknown time.
bool StepEstimate::host_bound() const {
  constexpr double kRoom = 0.8;
  const auto launch = static_cast<double>(in_.cost.launch().ps());
  const auto late = [&](const PartTime& t) {
    return t.launches > 0 && launch * static_cast<double>(t.launches) > kRoom * static_cast<double>(t.ps);
  };
  if (in_.layer.update_recorded && launch > 0) return true;
  return std::any_of(in_.layer.blocks.begin(), in_.layer.blocks.end(), [&](const BlockTimes& b) {
    return late(b.forward) || late(b.backward[1]) || (split_backward_ && late(b.weight[1])) ||
           (recompute_layers_ >= 0 && late(b.recompute));
  });
}

/// Extra time if exchanges of rows among experts, and of keys among context ranks, share links with gradients, transfers or each
/// other.
std::int64_t StepEstimate::beside_exchanges() {
  const std::int64_t context = in_.shapes.context, heads = in_.shapes.head_ranks, experts = in_.shapes.expert_ranks;
  const Op sums = collective(CollectiveKind::all_reduce, Group::data, layer_elements(), dtypes_.gradient_reduce);
  const Op send = Send{in_.layer.boundary_elements, dtypes_.compute, 1};
  const Members neighbours{0, stride_, 2, 1, stride_};
  const std::vector<std::int64_t>& transfer = in_.scratch.times.transfer;
  const std::int64_t transfers = p_ == 1 ? 0 : 2 * m_ * v_ * *std::max_element(transfer.begin(), transfer.end());
  std::int64_t longer = 0;
  const auto count = [&](const Op& op, const Members& group) {
    if (d_ > 1 && in_.links.meet(op, group, sums, data_groups(0))) longer += beside_;
    if (p_ > 1 && in_.links.meet(op, group, send, neighbours)) longer += transfers / 3;
    const std::int64_t groups = stride_ * p_ / (group.size() * group.groups);
    const double sending = 1 - in_.layer.computing_share;
    if (groups > 1 && in_.links.crowded(op, group, groups, group.size() * group.groups))
      longer += std::llround(sending * static_cast<double>(in_.scratch.passes));
  };
  const auto exchange = [&](CollectiveKind kind, Group group) {
    return collective(kind, group, in_.layer.boundary_elements, dtypes_.compute);
  };
  if (heads > 1 && heads < context) {
    count(exchange(CollectiveKind::all_to_all, Group::context_heads), {0, t_, heads, 1, t_});
    count(exchange(CollectiveKind::all_gather, Group::context_keys), {0, t_ * heads, context / heads, 1, t_ * heads});
  } else if (context > 1) {
    count(exchange(CollectiveKind::all_gather, Group::context), {0, t_, context, 1, t_});
  }
  const CollectiveKind rows = in_.shapes.gathers_tokens() ? CollectiveKind::all_gather : CollectiveKind::all_to_all;
  if (experts > 1) count(exchange(rows, Group::expert), expert_group());
  return longer;
}

}  // namespace tandem::sim::closed_form
