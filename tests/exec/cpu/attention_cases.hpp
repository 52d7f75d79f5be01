#pragma once
// Attention over whole sequences by plain loops, and its tensors in the layouts that operations and ranks have them in.

#include <algorithm>
#include <span>
#include <utility>
#include <vector>

#include "exec/data/random.hpp"
#include "tests/exec/cpu/kernel_harness.hpp"

namespace tandem::exec::test {

/// Queries [batch, queries, heads, dim], keys [batch, keys, groups, dim] and values, as wide as they are, or gradients of them.
struct Qkv {
  Values q, k, v;
};

/// Rows of an operand: (sequence, position) each, in order.
using RowList = std::vector<std::pair<std::int64_t, std::int64_t>>;

/// A whole attention, as if there were one rank.
struct WholeAttention {
  std::int64_t batch = 2, heads = 4, groups = 2, queries = 12, keys = 12, dim = 3;
  bool causal = true, alibi = false;
  double dropout = 0;
  std::int64_t window = 0;
  bool chunked = false;
  Values sinks = {};  ///< of every head, or none
  std::int64_t value_dim = 0;  ///< width of a value; 0: dim
  double soft_cap = 0;         ///< of scores; 0: none
  std::vector<std::int32_t> documents = {};  ///< [batch, keys]: where each position's document begins; none: they are joined

  std::int64_t wide() const { return value_dim > 0 ? value_dim : dim; }

  std::int64_t document(std::int64_t s, std::int64_t p) const {
    return documents.empty() ? 0 : documents[static_cast<std::size_t>(s * keys + p)];
  }
  /// Whether a query sees a key, by the positions of both.
  bool sees(std::int64_t s, std::int64_t q, std::int64_t k) const {
    if (causal && k > q) return false;
    const std::int64_t begin = document(s, q);
    if (document(s, k) != begin) return false;
    q -= begin, k -= begin;
    return window == 0 || (chunked ? q / window == k / window : q - k < window);
  }
  std::int64_t q_at(std::int64_t s, std::int64_t p, std::int64_t h) const { return ((s * queries + p) * heads + h) * dim; }
  std::int64_t k_at(std::int64_t s, std::int64_t p, std::int64_t g) const { return ((s * keys + p) * groups + g) * dim; }
  std::int64_t v_at(std::int64_t s, std::int64_t p, std::int64_t g) const { return ((s * keys + p) * groups + g) * wide(); }
  std::int64_t context_at(std::int64_t s, std::int64_t p, std::int64_t h) const { return ((s * queries + p) * heads + h) * wide(); }
  std::int64_t q_size() const { return batch * queries * heads * dim; }
  std::int64_t v_size() const { return batch * keys * groups * wide(); }
  std::int64_t context_size() const { return batch * queries * heads * wide(); }
  std::int64_t k_size() const { return batch * keys * groups * dim; }
  Qkv random(unsigned seed) const {
    return {random_values(q_size(), seed), random_values(k_size(), seed + 1), random_values(v_size(), seed + 2)};
  }
  Qkv zeros() const {
    const auto zeros_of = [](std::int64_t n) { return Values(static_cast<std::size_t>(n), 0.0); };
    return {zeros_of(q_size()), zeros_of(k_size()), zeros_of(v_size())};
  }
  /// The operation's dimensions for one rank without sharing.
  AttentionDims dims() const {
    AttentionDims d{batch, heads, queries, dim};
    d.kv_heads = groups == heads ? 0 : groups;
    d.keys = keys == queries ? 0 : keys;
    d.causal = causal;
    d.window = window;
    d.chunked = chunked;
    d.value_dim = value_dim;
    d.documents = !documents.empty();
    return d;
  }
};

/// Documents of 1 to `longest` positions that fill sequences.
inline std::vector<std::int32_t> random_documents(std::int64_t batch, std::int64_t length, int longest, unsigned seed) {
  std::vector<std::int32_t> all;
  const auto lengths = random_integers(batch * length, longest, seed);
  for (std::int64_t s = 0, n = 0; s < batch; ++s)
    for (std::int64_t p = 0; p < length; ++n) {
      const std::int64_t end = std::min(length, p + 1 + lengths[static_cast<std::size_t>(n)]);
      all.insert(all.end(), static_cast<std::size_t>(end - p), static_cast<std::int32_t>(p));
      p = end;
    }
  return all;
}

/// Tells the kernels where documents of sequences of `length` begin; none: they are joined.
inline void keep_apart(Kernels& kernels, const std::vector<std::int32_t>& documents, std::int64_t length) {
  if (documents.empty()) return;
  Memory& memory = kernels.backend->documents(documents.size() * sizeof(std::int32_t));
  memory.write(0, std::as_bytes(std::span(documents)));
  kernels.context.documents = reinterpret_cast<const std::int32_t*>(memory.address());
  kernels.context.seq_length = length;
}

/// The slope of a head as the ALiBi paper's reference code (ofirpress/attention_with_linear_biases) computes it.
inline double reference_slope(std::int64_t head, std::int64_t heads) {
  const auto power_of_2_slope = [](std::int64_t i, double n) {
    const double start = std::pow(2, -std::pow(2, -(std::log2(n) - 3)));
    return start * std::pow(start, static_cast<double>(i));
  };
  const double closest = std::pow(2, std::floor(std::log2(static_cast<double>(heads))));
  if (static_cast<double>(head) < closest) return power_of_2_slope(head, closest);
  return power_of_2_slope(2 * (head - static_cast<std::int64_t>(closest)), 2 * closest);
}

/// The factors of attention dropout by their documented index: ((sequence, head), query, key) among all.
struct PlainMask {
  const WholeAttention& a;
  RandomStream stream;
  std::int64_t first_sequence;

  PlainMask(const WholeAttention& whole, const KernelContext& c)
      : a(whole),
        stream(RandomStream::dropout(c.seed, DropoutSite::attention, c.table->step, c.layer)),
        first_sequence(c.table->first_sample + c.first_sequence) {}
  double at(std::int64_t s, std::int64_t h, std::int64_t q, std::int64_t k) const {
    if (a.dropout == 0) return 1;
    const std::int64_t index = (((first_sequence + s) * a.heads + h) * a.queries + q) * a.keys + k;
    return stream.bits(static_cast<std::uint64_t>(index)) < drop_threshold(a.dropout) ? 0 : 1 / (1 - a.dropout);
  }
};

/// context[batch, queries, heads, wide()], with `bias(head, query, key)` added to the scores.
template <class Bias>
Values plain_attention(const WholeAttention& a, const Qkv& x, const KernelContext& context, Bias bias) {
  const PlainMask mask(a, context);
  Values out(static_cast<std::size_t>(a.context_size()), 0.0);
  for (std::int64_t s = 0; s < a.batch; ++s)
    for (std::int64_t h = 0; h < a.heads; ++h)
      for (std::int64_t q = 0; q < a.queries; ++q) {
        const std::int64_t g = h / (a.heads / a.groups);
        Values weight;
        double total = a.sinks.empty() ? 0 : std::exp(a.sinks[static_cast<std::size_t>(h)]);
        for (std::int64_t k = 0; k < a.keys; ++k) {
          weight.push_back(0);
          if (!a.sees(s, q, k)) continue;
          double score = 0;
          for (std::int64_t d = 0; d < a.dim; ++d)
            score += x.q[static_cast<std::size_t>(a.q_at(s, q, h) + d)] * x.k[static_cast<std::size_t>(a.k_at(s, k, g) + d)];
          score /= std::sqrt(static_cast<double>(a.dim));
          if (a.soft_cap > 0) score = a.soft_cap * std::tanh(score / a.soft_cap);
          weight.back() = std::exp(score + bias(h, q, k));
          total += weight.back();
        }
        for (std::int64_t k = 0; k < a.keys; ++k)
          for (std::int64_t d = 0; d < a.wide(); ++d)
            out[static_cast<std::size_t>(a.context_at(s, q, h) + d)] += mask.at(s, h, q, k) * weight[static_cast<std::size_t>(k)] /
                                                                        total * x.v[static_cast<std::size_t>(a.v_at(s, k, g) + d)];
      }
  return out;
}
inline Values plain_attention(const WholeAttention& a, const Qkv& x, const KernelContext& context) {
  return plain_attention(a, x, context, [&](std::int64_t h, std::int64_t q, std::int64_t k) {
    return a.alibi ? reference_slope(h, a.heads) * static_cast<double>(k - q) : 0.0;
  });
}

// ---- ranks ----

/// Positions of context rank r of c, as models/ops/op.hpp has it: pieces r and 2c-1-r of 2c.
inline std::vector<std::int64_t> positions_of(std::int64_t c, std::int64_t r, std::int64_t length) {
  std::vector<std::int64_t> all;
  if (c == 1) {
    for (std::int64_t p = 0; p < length; ++p) all.push_back(p);
    return all;
  }
  const std::int64_t piece = length / (2 * c);
  for (const std::int64_t number : {r, 2 * c - 1 - r})
    for (std::int64_t i = 0; i < piece; ++i) all.push_back(number * piece + i);
  return all;
}
inline RowList rows_of(std::int64_t batch, std::int64_t c, std::int64_t r, std::int64_t length) {
  RowList rows;
  for (std::int64_t s = 0; s < batch; ++s)
    for (const std::int64_t p : positions_of(c, r, length)) rows.push_back({s, p});
  return rows;
}
/// All rows, ordered (context rank, sequence, position).
inline RowList rows_by_rank(std::int64_t batch, std::int64_t c, std::int64_t length) {
  RowList rows;
  for (std::int64_t r = 0; r < c; ++r)
    for (const auto& row : rows_of(batch, c, r, length)) rows.push_back(row);
  return rows;
}

/// Some heads (with their groups) and some rows of a whole attention's tensors, as operands.
struct Layout {
  const WholeAttention& a;
  RowList rows;
  std::int64_t first_group = 0, groups = a.groups;

  std::int64_t per_group() const { return a.heads / a.groups; }
  std::int64_t count() const { return static_cast<std::int64_t>(rows.size()); }

  /// body(offset in the operand, offset in the whole tensor, which of q 0, k 1, v 2) for every head of every row.
  template <class Body>
  void each_qkv(Body body) const {
    std::int64_t at = 0;
    for (const auto& [s, p] : rows)
      for (std::int64_t g = first_group; g < first_group + groups; ++g) {
        for (std::int64_t h = g * per_group(); h < (g + 1) * per_group(); ++h, at += a.dim) body(at, a.q_at(s, p, h), 0);
        for (const int part : {1, 2}) {
          body(at, part_at(s, p, g, part), part);
          at += width(part);
        }
      }
  }
  template <class Body>
  void each_kv(Body body) const {
    std::int64_t at = 0;
    for (const auto& [s, p] : rows)
      for (std::int64_t g = first_group; g < first_group + groups; ++g)
        for (const int part : {1, 2}) {
          body(at, part_at(s, p, g, part), part);
          at += width(part);
        }
  }
  template <class Body>
  void each_q(Body body) const {
    std::int64_t at = 0;
    for (const auto& [s, p] : rows)
      for (std::int64_t h = first_group * per_group(); h < (first_group + groups) * per_group(); ++h, at += a.dim)
        body(at, a.q_at(s, p, h), 0);
  }

  std::int64_t qkv_size() const { return count() * groups * per_group() * a.dim + kv_size(); }
  std::int64_t kv_size() const { return count() * groups * (a.dim + a.wide()); }
  std::int64_t q_size() const { return count() * groups * per_group() * a.dim; }

  Values qkv(const Qkv& x) const {
    Values out(static_cast<std::size_t>(qkv_size()));
    each_qkv([&](std::int64_t to, std::int64_t from, int part) { copy(tensor(x, part), from, out, to, width(part)); });
    return out;
  }
  Values kv(const Qkv& x) const {
    Values out(static_cast<std::size_t>(kv_size()));
    each_kv([&](std::int64_t to, std::int64_t from, int part) { copy(tensor(x, part), from, out, to, width(part)); });
    return out;
  }
  /// Queries, or a context of values as wide as they.
  Values q(const Values& whole) const {
    Values out(static_cast<std::size_t>(q_size()));
    each_q([&](std::int64_t to, std::int64_t from, int) { copy(whole, from, out, to, a.dim); });
    return out;
  }

  /// Adds an operand to the whole.
  void add_qkv(const Values& operand, Qkv& sum) const {
    each_qkv([&](std::int64_t from, std::int64_t to, int part) { add(operand, from, tensor(sum, part), to, width(part)); });
  }
  void add_kv(const Values& operand, Qkv& sum) const {
    each_kv([&](std::int64_t from, std::int64_t to, int part) { add(operand, from, tensor(sum, part), to, width(part)); });
  }
  void add_q(const Values& operand, Values& sum) const {
    each_q([&](std::int64_t from, std::int64_t to, int) { add(operand, from, sum, to, a.dim); });
  }
  /// Adds only the q parts of a packed gradient, because its k and v parts are not written.
  void add_q_of_qkv(const Values& operand, Values& sum) const {
    each_qkv([&](std::int64_t from, std::int64_t to, int part) {
      if (part == 0) add(operand, from, sum, to, a.dim);
    });
  }

 private:
  static const Values& tensor(const Qkv& x, int part) { return part == 0 ? x.q : part == 1 ? x.k : x.v; }
  static Values& tensor(Qkv& x, int part) { return part == 0 ? x.q : part == 1 ? x.k : x.v; }
  std::int64_t width(int part) const { return part == 2 ? a.wide() : a.dim; }
  std::int64_t part_at(std::int64_t s, std::int64_t p, std::int64_t g, int part) const {
    return part == 2 ? a.v_at(s, p, g) : a.k_at(s, p, g);
  }
  static void copy(const Values& from, std::int64_t first, Values& to, std::int64_t at, std::int64_t count) {
    std::copy_n(from.begin() + first, count, to.begin() + at);
  }
  static void add(const Values& from, std::int64_t first, Values& to, std::int64_t at, std::int64_t count) {
    for (std::int64_t d = 0; d < count; ++d) to[static_cast<std::size_t>(at + d)] += from[static_cast<std::size_t>(first + d)];
  }
};

inline Layout whole_layout(const WholeAttention& a, std::int64_t length) { return {a, rows_of(a.batch, 1, 0, length)}; }

/// Flattened, to differentiate by all three at once.
inline Values flat(const Qkv& x) { return concatenated(concatenated(x.q, x.k), x.v); }
inline Qkv unflat(const WholeAttention& a, const Values& v) {
  return {slice(v, 0, a.q_size()), slice(v, a.q_size(), a.k_size()), slice(v, a.q_size() + a.k_size(), a.v_size())};
}

// ---- one rank, nothing shared ----

struct FlashResult {
  Values context, stats;
};

inline FlashResult flash(Kernels& kernels, const WholeAttention& a, const Qkv& x) {
  keep_apart(kernels, a.documents, a.keys);
  AttentionDims d = a.dims();
  const Layout q = whole_layout(a, a.queries), k = whole_layout(a, a.keys);
  const bool packed = a.queries == a.keys;
  d.q_packed = d.kv_packed = packed;
  FlashAttention op{d, a.dropout, a.alibi};
  std::vector<Operand> in{real(packed ? q.qkv(x) : q.q(x.q)), real(packed ? q.qkv(x) : k.kv(x))};
  op.sinks = !a.sinks.empty();
  op.soft_cap = a.soft_cap;
  if (op.sinks) in.push_back(real(a.sinks));
  const auto out = kernels.run(op, in, {result(a.context_size()), result(a.batch * a.heads * a.queries)});
  return {out[0], out[1]};
}

inline Qkv flash_backward(Kernels& kernels, const WholeAttention& a, const Qkv& x, const Values& dcontext) {
  AttentionDims d = a.dims();
  const Layout q = whole_layout(a, a.queries), k = whole_layout(a, a.keys);
  const FlashResult f = flash(kernels, a, x);
  Qkv sum = a.zeros();
  d.q_packed = d.kv_packed = a.queries == a.keys;
  FlashAttentionBackward op{d, a.dropout, a.alibi};
  op.soft_cap = a.soft_cap;
  if (d.q_packed) {
    const auto out = kernels.run(op, {real(dcontext), real(q.qkv(x)), real(q.qkv(x)), real(f.context), real(f.stats)},
                                 {result(q.qkv_size()), same_as(0)});
    q.add_qkv(out[0], sum);
  } else {
    const auto out = kernels.run(op, {real(dcontext), real(q.q(x.q)), real(k.kv(x)), real(f.context), real(f.stats)},
                                 {result(q.q_size()), result(k.kv_size())});
    q.add_q(out[0], sum.q);
    k.add_kv(out[1], sum);
  }
  return sum;
}

/// Its context against plain loops, in both types.
/// The gradient of what a kernel without a score matrix gives, against slopes.
inline void check_flash_gradient(const WholeAttention& a) {
  Kernels kernels;
  const Qkv x = a.random(1);
  const Values dcontext = random_values(a.q_size(), 7);
  const auto loss = [&](const Values& v) { return dot(dcontext, flash(kernels, a, unflat(a, v)).context); };
  check_gradient(loss, flat(x), flat(flash_backward(kernels, a, x, dcontext)));
}

inline void check_flash(const WholeAttention& a) {
  Kernels doubles(DType::fp64), floats(DType::fp32);
  const Qkv x = a.random(1);
  const Values expected = plain_attention(a, x, doubles.on_host());
  check_close(flash(doubles, a, x).context, expected, 1e-14);
  check_close(flash(floats, a, x).context, expected, 2e-6);
}

}  // namespace tandem::exec::test
