#include "exec/device/attention_calls.hpp"

#include <algorithm>
#include <initializer_list>

namespace tandem::exec::device {
namespace {

constexpr std::int64_t kStep = 8, kLongest = 256;  // elements of a head that libraries' tiles take

std::string beyond(const AttentionPlace& place, const HeadLayout& layout, std::initializer_list<Typed> operands,
                   const Typed& stats) {
  const DType type = operands.begin()->type;
  if (type != DType::bf16 && type != DType::fp16) return "operands are not of 16 bits";
  if (std::any_of(operands.begin(), operands.end(), [&](const Typed& t) { return t.type != type; }))
    return "operands are of several types";
  if (stats.type != DType::fp32) return "statistics are not in fp32";
  if (place.dropout.threshold > 0) return "masks of dropout are by global index";
  if (place.window > 0) return "queries see a window of keys";
  if (place.alibi) return "scores have ALiBi";
  if (place.soft_cap > 0) return "scores have a soft cap";
  if (place.head_dim % kStep != 0 || place.head_dim > kLongest) return "heads of " + std::to_string(place.head_dim) + " dimensions";
  if (layout.value_dim != layout.head_dim) return "values are not as wide as keys";
  if (place.queries_of.context_size * place.keys_of.context_size > 1 || layout.key_shards.context_size > 1)
    return "context ranks share sequences";
  if (place.causal && place.keys != place.seq) return "causal queries and keys are not equally many";
  return "";
}

std::byte* moved(const Typed& t, std::int64_t elements) {
  return t.address == nullptr ? nullptr : t.address + bytes_of(t.type, elements).count();
}

/// Operands of forward or backward passes.
struct Parts {
  Typed q, kv, context, stats, dcontext, dq, dkv;
};

/// Where the operands begin of the call for `sequence`.
AttentionOperands operands(const Parts& p, const HeadLayout& l, const AttentionPlace& place, std::int64_t sequence) {
  const auto query = l.query(0).at(sequence, 0), key = l.key(0, 0).at(sequence, 0), value = l.key(0, 1).at(sequence, 0);
  const auto context = l.context(0).at(sequence, 0);
  return {moved(p.q, query),
          moved(p.kv, key),
          moved(p.kv, value),
          moved(p.context, context),
          moved(p.stats, sequence * place.heads * place.seq),
          moved(p.dcontext, context),
          moved(p.dq, query),
          moved(p.dkv, key),
          moved(p.dkv, value)};
}

/// From a sequence, a head and a row on of `columns` to the next.
AttentionStrides strides(const HeadColumns& columns, std::int64_t head) {
  return {columns.rows * columns.stride, head, columns.stride};
}

std::vector<AttentionCall> calls(const Parts& p, const HeadLayout& l, const AttentionPlace& place) {
  const std::int64_t groups = place.heads / l.per_group;
  const std::int64_t key_head = groups > 1 ? l.key(1, 0).first - l.key(0, 0).first : l.head_dim;
  AttentionShape shape{place.batch,
                       place.heads,
                       groups,
                       place.seq,
                       place.keys,
                       place.head_dim,
                       p.q.type,
                       place.causal,
                       strides(l.query(0), l.head_dim),
                       strides(l.key(0, 0), key_head),
                       strides(l.context(0), l.head_dim)};
  const bool uneven = l.q_packed && l.per_group > 1 && groups > 1;
  if (!uneven) {
    if (place.heads > 1) shape.query.head = l.query(1).first - l.query(0).first;
    return {{shape, operands(p, l, place, 0)}};
  }
  // Groups take the place of sequences: they lie at even distances, and so do the heads of each.
  shape.batch = groups, shape.heads = l.per_group, shape.groups = 1;
  shape.query.sequence = l.query(l.per_group).first - l.query(0).first;
  shape.key.sequence = key_head;
  shape.context.sequence = l.per_group * l.head_dim;
  std::vector<AttentionCall> all;
  for (std::int64_t s = 0; s < place.batch; ++s) all.push_back({shape, operands(p, l, place, s)});
  return all;
}

}  // namespace

std::string beyond_libraries(const FlashKernel& k) {
  if (k.sinks.here()) return "heads have sinks";
  return beyond(k.place, k.layout, {k.q, k.kv, k.context}, k.stats);
}

std::string beyond_libraries(const FlashGradKernels& k) {
  const FlashGradOperands& at = k.query.at;
  return beyond(k.query.place, k.query.layout, {at.q, at.kv, at.context, at.dcontext, at.dq, at.dkv}, at.stats);
}

std::vector<AttentionCall> calls_of(const FlashKernel& k) {
  return calls({k.q, k.kv, k.context, k.stats, {}, {}, {}}, k.layout, k.place);
}

std::vector<AttentionCall> calls_of(const FlashGradKernels& k) {
  const FlashGradOperands& at = k.query.at;
  return calls({at.q, at.kv, at.context, at.stats, at.dcontext, at.dq, at.dkv}, k.query.layout, k.query.place);
}

}  // namespace tandem::exec::device
