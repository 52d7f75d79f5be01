#include "exec/device/attention_calls.hpp"

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <utility>

namespace tandem::exec::device {
namespace {

constexpr std::int64_t kStep = 8, kLongest = 256;  // element granularity and largest size of a head in libraries' tiles

std::string beyond(const AttentionPlace& place, const HeadLayout& layout, std::initializer_list<Typed> operands,
                   const Typed& stats) {
  const DType type = operands.begin()->type;
  if (type != DType::bf16 && type != DType::fp16) return "operands are not of 16 bits";
  if (std::any_of(operands.begin(), operands.end(), [&](const Typed& t) { return t.type != type; }))
    return "operands are of several types";
  if (stats.type != DType::fp32) return "statistics are not in fp32";
  if (place.documents.here()) return "documents are kept apart";
  if (place.dropout.threshold > 0) return "masks of dropout are by global index";
  if (place.window > 0) return "queries see a window of keys";
  if (place.alibi) return "scores have ALiBi";
  if (place.soft_cap > 0) return "scores have a soft cap";
  if (place.head_dim % kStep != 0 || place.head_dim > kLongest) return "heads of " + std::to_string(place.head_dim) + " dimensions";
  if (layout.value_dim != layout.head_dim) return "values are not as wide as keys";
  if (layout.key_shards.context_size > 1 || place.queries_of.context_size != place.keys_of.context_size)
    return "rows of several context ranks are not in order";
  if (place.causal && place.keys != place.seq) return "causal queries and keys are not equally many";
  return "";
}

std::byte* moved(const Typed& t, std::int64_t elements) {
  return t.address == nullptr ? nullptr : t.address + bytes_of(t.type, elements).count();
}

/// Operands of a forward or backward pass. `span`: queries and keys of the step; `apart`: context and stats hold only the span.
struct Parts {
  Typed q, kv, context, stats, dcontext, dq, dkv;
  RingSpan span;
  bool apart = false;
};

HeadColumns context_columns(const Parts& p, const HeadLayout& l) {
  HeadColumns columns = l.context(0);
  if (p.apart) columns.rows = p.span.queries;
  return columns;
}

/// Start addresses of the operands in the call for `sequence`.
AttentionOperands operands(const Parts& p, const HeadLayout& l, const AttentionPlace& place, std::int64_t sequence) {
  const std::int64_t first = p.span.first_query, row = p.apart ? 0 : first, rows = p.apart ? p.span.queries : place.seq;
  const auto query = l.query(0).at(sequence, first), key = l.key(0, 0).at(sequence, p.span.first_key);
  const auto value = l.key(0, 1).at(sequence, p.span.first_key), context = context_columns(p, l).at(sequence, row);
  return {moved(p.q, query),
          moved(p.kv, key),
          moved(p.kv, value),
          moved(p.context, context),
          moved(p.stats, sequence * place.heads * rows + row),
          moved(p.dcontext, context),
          moved(p.dq, query),
          moved(p.dkv, key),
          moved(p.dkv, value)};
}

/// Strides of `columns` between sequences, heads and rows.
AttentionStrides strides(const HeadColumns& columns, std::int64_t head) {
  return {columns.rows * columns.stride, head, columns.stride};
}

/// Bytes, at most 16, that divide the statistics' addresses of all calls. A ring step's begin at any of its queries.
std::int64_t stats_alignment(const std::vector<AttentionCall>& calls) {
  std::uintptr_t bits = 16;
  for (const AttentionCall& call : calls) bits |= reinterpret_cast<std::uintptr_t>(call.at.stats);
  return static_cast<std::int64_t>(bits & (~bits + 1));
}

std::vector<AttentionCall> aligned(std::vector<AttentionCall> calls) {
  const std::int64_t bytes = stats_alignment(calls);
  for (AttentionCall& call : calls) call.shape.stats_alignment = bytes;
  return calls;
}

std::vector<AttentionCall> calls(const Parts& p, const HeadLayout& l, const AttentionPlace& place, bool causal) {
  const std::int64_t groups = place.heads / l.per_group;
  const std::int64_t key_head = groups > 1 ? l.key(1, 0).first - l.key(0, 0).first : l.head_dim;
  AttentionShape shape{place.batch,
                       place.heads,
                       groups,
                       p.span.queries,
                       p.span.keys,
                       place.head_dim,
                       p.q.type,
                       causal,
                       strides(l.query(0), l.head_dim),
                       strides(l.key(0, 0), key_head),
                       strides(context_columns(p, l), l.head_dim),
                       p.apart ? p.span.queries : place.seq,
                       place.scale};
  const bool uneven = l.q_packed && l.per_group > 1 && groups > 1;
  if (!uneven) {
    if (place.heads > 1) shape.query.head = l.query(1).first - l.query(0).first;
    return aligned({{shape, operands(p, l, place, 0)}});
  }
  // Groups replace sequences: they have a constant stride, and so have the heads of each group.
  shape.batch = groups, shape.heads = l.per_group, shape.groups = 1;
  shape.query.sequence = l.query(l.per_group).first - l.query(0).first;
  shape.key.sequence = key_head;
  shape.context.sequence = l.per_group * l.head_dim;
  std::vector<AttentionCall> all;
  for (std::int64_t s = 0; s < place.batch; ++s) all.push_back({shape, operands(p, l, place, s)});
  return aligned(std::move(all));
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

namespace {

RingSpan span_of(const AttentionPlace& place, bool adds) {
  return adds ? ring_span(place) : RingSpan{0, place.seq, 0, place.keys};
}

/// A library's ring step, in scratch memory.
RingParts parts_in(const FlashKernel& k) {
  const RingSpan span = ring_span(k.place);
  const std::int64_t context = k.place.batch * span.queries * k.layout.heads * k.layout.value_dim;
  return {{k.scratch, k.context.type}, {k.scratch + padded_bytes(k.context.type, context), k.stats.type}};
}

std::int64_t query_elements(const FlashGradKernels& k) { return k.query.place.batch * k.query.place.seq * k.query.layout.q_width; }

Typed dq_in(const FlashGradKernels& k) { return {k.scratch, k.query.at.dq.type}; }
Typed dkv_in(const FlashGradKernels& k) {
  return {k.scratch + padded_bytes(k.query.at.dq.type, query_elements(k)), k.query.at.dkv.type};
}

}  // namespace

std::int64_t ring_scratch(const FlashKernel& k) {
  if (!k.merges || !beyond_libraries(k).empty()) return 0;
  const std::int64_t rows = k.place.batch * ring_span(k.place).queries;
  return padded_bytes(k.context.type, rows * k.layout.heads * k.layout.value_dim) +
         padded_bytes(k.stats.type, rows * k.layout.heads);
}

std::int64_t ring_scratch(const FlashGradKernels& k) {
  if (!k.query.adds || !beyond_libraries(k).empty()) return 0;
  const FlashGradOperands& at = k.query.at;
  return padded_bytes(at.dq.type, query_elements(k)) +
         padded_bytes(at.dkv.type, k.query.place.batch * k.query.place.keys * k.query.layout.kv_width);
}

RingMergeKernel merge_of(const FlashKernel& k) {
  return {k.form, parts_in(k), k.context, k.stats, ring_span(k.place), k.place.batch, k.layout};
}

std::vector<RingAddKernel> adds_of(const FlashGradKernels& k) {
  const AttentionPlace& place = k.query.place;
  const HeadLayout& l = k.query.layout;
  const FlashGradOperands& at = k.query.at;
  const RingSpan span = ring_span(place);
  const std::int64_t groups = place.heads / l.per_group, queries = l.per_group * l.head_dim, pair = l.head_dim + l.value_dim;
  const GroupColumns of_queries{groups, l.q_packed ? queries + pair : queries, 0, queries};
  const GroupColumns of_keys{groups, l.kv_packed ? queries + pair : pair, l.kv_packed ? queries : 0, pair};
  return {{k.query.form, dq_in(k), at.dq, place.batch, place.seq, span.first_query, span.queries, of_queries},
          {k.query.form, dkv_in(k), at.dkv, place.batch, place.keys, span.first_key, span.keys, of_keys}};
}

std::vector<AttentionCall> calls_of(const FlashKernel& k) {
  const RingParts part = k.merges ? parts_in(k) : RingParts{k.context, k.stats};
  return calls({k.q, k.kv, part.context, part.stats, {}, {}, {}, span_of(k.place, k.merges), k.merges}, k.layout, k.place,
               k.place.causal && !k.merges);
}

std::vector<AttentionCall> calls_of(const FlashGradKernels& k) {
  const FlashGradOperands& at = k.query.at;
  const bool adds = k.query.adds;
  return calls({at.q, at.kv, at.context, at.stats, at.dcontext, adds ? dq_in(k) : at.dq, adds ? dkv_in(k) : at.dkv,
                span_of(k.query.place, adds)},
               k.query.layout, k.query.place, k.query.place.causal && !adds);
}

}  // namespace tandem::exec::device
