// Sparse attention's indexer: the keys that it chooses, attention to them, what it learns and its gradients, against plain loops.
#include <numeric>

#include "tests/exec/cpu/attention_cases.hpp"

namespace tandem::exec::test {
namespace {

/// A whole indexer, as if there were one rank.
struct Indexer {
  std::int64_t batch = 2, heads = 3, length = 12, dim = 5, topk = 4;
  Values q, k, w;

  Indexer() { draw(1); }
  Indexer(std::int64_t b, std::int64_t h, std::int64_t n, std::int64_t d, std::int64_t chosen)
      : batch(b), heads(h), length(n), dim(d), topk(chosen) {
    draw(1);
  }

  void draw(unsigned seed) {
    q = random_values(batch * length * heads * dim, seed);
    k = random_values(batch * length * dim, seed + 1);
    w = random_values(batch * length * heads, seed + 2);
  }
  IndexDims dims() const { return {batch, heads, length, dim, topk}; }
  std::int64_t listed() const { return std::min(topk, length); }
  std::int64_t rows() const { return batch * length; }

  double product(std::int64_t s, std::int64_t query, std::int64_t h, std::int64_t key) const {
    double sum = 0;
    for (std::int64_t d = 0; d < dim; ++d)
      sum += q[static_cast<std::size_t>(((s * length + query) * heads + h) * dim + d)] *
             k[static_cast<std::size_t>((s * length + key) * dim + d)];
    return sum;
  }
  double score(std::int64_t s, std::int64_t query, std::int64_t key) const {
    double sum = 0;
    for (std::int64_t h = 0; h < heads; ++h)
      sum += w[static_cast<std::size_t>((s * length + query) * heads + h)] * std::max(0.0, product(s, query, h, key));
    return sum / std::sqrt(static_cast<double>(heads)) / std::sqrt(static_cast<double>(dim));
  }
  /// The best key of those not taken yet, again and again.
  std::vector<int> list(std::int64_t s, std::int64_t query) const {
    std::vector<int> all;
    while (static_cast<std::int64_t>(all.size()) < std::min(listed(), query + 1)) {
      int best = -1;
      for (int key = 0; key <= query; ++key) {
        const bool taken = std::find(all.begin(), all.end(), key) != all.end();
        if (!taken && (best < 0 || score(s, query, key) > score(s, query, best))) best = key;
      }
      all.push_back(best);
    }
    std::sort(all.begin(), all.end());
    return all;
  }
  std::vector<int> lists() const {
    std::vector<int> all;
    for (std::int64_t row = 0; row < rows(); ++row) {
      std::vector<int> one = list(row / length, row % length);
      one.resize(static_cast<std::size_t>(listed()), -1);
      all.insert(all.end(), one.begin(), one.end());
    }
    return all;
  }
  /// Mean divergence of the softmax of the scores of keys in `lists` from `target`.
  double divergence(const std::vector<int>& lists, const Values& target) const {
    double mean = 0;
    for (std::int64_t row = 0; row < rows(); ++row) {
      double all = 0, sum = 0;
      for (std::int64_t j = row * listed(); j < (row + 1) * listed(); ++j) {
        const int key = lists[static_cast<std::size_t>(j)];
        if (key < 0) continue;
        all += target[static_cast<std::size_t>(j)];
        sum += std::exp(score(row / length, row % length, key));
      }
      for (std::int64_t j = row * listed(); j < (row + 1) * listed(); ++j) {
        const int key = lists[static_cast<std::size_t>(j)];
        if (key < 0) continue;
        const double p = target[static_cast<std::size_t>(j)] / all, r = std::exp(score(row / length, row % length, key)) / sum;
        mean += p * std::log(p / r) / static_cast<double>(rows());
      }
    }
    return mean;
  }
  /// How near a product comes to 0, where a score has no slope.
  double nearest() const {
    double least = 1;
    for (std::int64_t s = 0; s < batch; ++s)
      for (std::int64_t query = 0; query < length; ++query)
        for (std::int64_t key = 0; key <= query; ++key)
          for (std::int64_t h = 0; h < heads; ++h) least = std::min(least, std::abs(product(s, query, h, key)));
    return least;
  }
};

std::vector<int> chosen(Kernels& kernels, const Indexer& x) {
  return as_integers(
      kernels.run(IndexTopK{x.dims()}, {real(x.q), real(x.k), real(x.w)}, {integer_result(x.rows() * x.listed())}).front());
}

/// Any distribution over the keys of each list, not yet divided by its sum.
Values some_target(const Indexer& x, const std::vector<int>& lists) {
  Values t = random_values(x.rows() * x.listed(), 9);
  for (std::size_t i = 0; i < t.size(); ++i) t[i] = lists[i] < 0 ? 0 : 1.5 + t[i];
  return t;
}

struct IndexGradient {
  Values q, k, w;
};
IndexGradient gradient(Kernels& kernels, const Indexer& x, const std::vector<int>& lists, const Values& target) {
  const auto out =
      kernels.run(IndexTopKBackward{x.dims(), x.rows()}, {real(target), real(x.q), real(x.k), real(x.w), integers(lists)},
                  {result(static_cast<std::int64_t>(x.q.size())), result(static_cast<std::int64_t>(x.k.size())),
                   result(static_cast<std::int64_t>(x.w.size()))});
  return {out[0], out[1], out[2]};
}

// ---- attention to a list ----

/// Probabilities of a head's keys in the order of a list.
Values probabilities(const WholeAttention& a, const Qkv& x, std::int64_t s, std::int64_t h, std::int64_t query,
                     const std::vector<int>& list) {
  Values p;
  double sum = 0;
  for (const int key : list) {
    double score = 0;
    for (std::int64_t d = 0; d < a.dim; ++d)
      score += x.q[static_cast<std::size_t>(a.q_at(s, query, h) + d)] *
               x.k[static_cast<std::size_t>(a.k_at(s, key, h / (a.heads / a.groups)) + d)];
    p.push_back(std::exp(score / std::sqrt(static_cast<double>(a.dim))));
    sum += p.back();
  }
  for (double& v : p) v /= sum;
  return p;
}

Values plain_context(const WholeAttention& a, const Qkv& x, const Indexer& by) {
  Values out(static_cast<std::size_t>(a.context_size()), 0.0);
  for (std::int64_t s = 0; s < a.batch; ++s)
    for (std::int64_t h = 0; h < a.heads; ++h)
      for (std::int64_t query = 0; query < a.queries; ++query) {
        const std::vector<int> list = by.list(s, query);
        const Values p = probabilities(a, x, s, h, query, list);
        for (std::size_t j = 0; j < list.size(); ++j)
          for (std::int64_t d = 0; d < a.wide(); ++d)
            out[static_cast<std::size_t>(a.context_at(s, query, h) + d)] +=
                p[j] * x.v[static_cast<std::size_t>(a.v_at(s, list[j], h / (a.heads / a.groups)) + d)];
      }
  return out;
}

Values plain_target(const WholeAttention& a, const Qkv& x, const Indexer& by) {
  Values out(static_cast<std::size_t>(by.rows() * by.listed()), 0.0);
  for (std::int64_t row = 0; row < by.rows(); ++row) {
    const std::vector<int> list = by.list(row / by.length, row % by.length);
    for (std::int64_t h = 0; h < a.heads; ++h) {
      const Values p = probabilities(a, x, row / by.length, h, row % by.length, list);
      for (std::size_t j = 0; j < p.size(); ++j) out[static_cast<std::size_t>(row * by.listed()) + j] += p[j];
    }
  }
  return out;
}

WholeAttention attention_of(const Indexer& x, std::int64_t groups) {
  WholeAttention a{x.batch, 4, groups, x.length, x.length, 3};
  a.value_dim = 5;
  return a;
}
AttentionDims dims_of(const WholeAttention& a, const Indexer& by) {
  AttentionDims d = a.dims();
  d.window = by.topk < by.length ? by.topk : 0;
  return d;
}

FlashResult attend(Kernels& kernels, const WholeAttention& a, const Qkv& x, const Indexer& by) {
  const Operand qkv = real(whole_layout(a, a.queries).qkv(x));
  FlashAttention op{dims_of(a, by), 0, false};
  op.chosen = true;
  const auto out =
      kernels.run(op, {qkv, qkv, integers(by.lists())}, {result(a.context_size()), result(a.batch * a.heads * a.queries)});
  return {out[0], out[1]};
}

Qkv attend_backward(Kernels& kernels, const WholeAttention& a, const Qkv& x, const Indexer& by, const Values& dcontext) {
  const Layout all = whole_layout(a, a.queries);
  const FlashResult f = attend(kernels, a, x, by);
  FlashAttentionBackward op{dims_of(a, by), 0, false};
  op.chosen = true;
  const Operand qkv = real(all.qkv(x));
  const auto out = kernels.run(op, {real(dcontext), qkv, qkv, real(f.context), real(f.stats), integers(by.lists())},
                               {result(all.qkv_size()), same_as(0)});
  Qkv sum = a.zeros();
  all.add_qkv(out[0], sum);
  return sum;
}

Values target_of(Kernels& kernels, const WholeAttention& a, const Qkv& x, const Indexer& by) {
  const Operand qkv = real(whole_layout(a, a.queries).qkv(x));
  return kernels.one(IndexTarget{dims_of(a, by)}, {qkv, qkv, real(attend(kernels, a, x, by).stats), integers(by.lists())},
                     by.rows() * by.listed());
}

Indexer any_indexer() {
  return GENERATE(Indexer(2, 3, 12, 5, 4), Indexer(1, 1, 1, 3, 2), Indexer(2, 2, 37, 7, 11), Indexer(1, 70, 9, 2, 3),
                  Indexer(2, 3, 12, 5, 1), Indexer(2, 3, 12, 5, 40));
}

}  // namespace

TEST_CASE("an indexer chooses the keys of the best scores up to a query's position") {
  const Indexer x = any_indexer();
  Kernels doubles(DType::fp64), floats(DType::fp32);
  CHECK(chosen(doubles, x) == x.lists());
  CHECK(chosen(floats, x) == x.lists());
}

TEST_CASE("of equal scores an indexer chooses the lower positions") {
  Indexer x;
  std::fill(x.w.begin(), x.w.end(), 0.0);
  Kernels kernels;
  const std::vector<int> lists = chosen(kernels, x);
  for (std::int64_t row = 0; row < x.rows(); ++row)
    for (int j = 0; j < 4; ++j) CHECK(lists[static_cast<std::size_t>(row * 4 + j)] == (j <= row % x.length ? j : -1));
  std::fill(x.w.begin(), x.w.end(), -1.0);  // the best ones are those of products below 0
  CHECK(chosen(kernels, x) == x.lists());
}

TEST_CASE("a score that is not a number is worse than all others") {
  Indexer x(1, 1, 4, 1, 2);
  x.q = {1, 1, 1, 1};
  x.k = {1, std::numeric_limits<double>::quiet_NaN(), 2, 3};
  x.w = {1, 1, 1, 1};
  Kernels kernels;
  CHECK(chosen(kernels, x) == std::vector<int>{0, -1, 0, 1, 0, 2, 2, 3});
}

TEST_CASE("attention to chosen keys equals plain loops over them") {
  const Indexer by = any_indexer();
  const WholeAttention a = attention_of(by, GENERATE(4, 2));
  const Qkv x = a.random(11);
  Kernels doubles(DType::fp64), floats(DType::fp32);
  const Values expected = plain_context(a, x, by);
  check_close(attend(doubles, a, x, by).context, expected, 1e-14);
  check_close(attend(floats, a, x, by).context, expected, 2e-6);
}

TEST_CASE("attention whose lists have all keys is attention without lists") {
  const Indexer by(2, 3, 37, 5, 37);
  const WholeAttention a = attention_of(by, 2);
  const Qkv x = a.random(11);
  const Values dcontext = random_values(a.context_size(), 7);
  Kernels kernels;
  const FlashResult some = attend(kernels, a, x, by), all = flash(kernels, a, x);
  check_close(some.context, all.context, 1e-14);
  check_close(some.stats, all.stats, 1e-14);
  check_close(flat(attend_backward(kernels, a, x, by, dcontext)), flat(flash_backward(kernels, a, x, dcontext)), 1e-13);
}

TEST_CASE("the gradient of attention to chosen keys equals slopes, their choice held fixed") {
  const Indexer by(GENERATE(1, 2), 2, 6, 3, GENERATE(1, 3, 9));
  const WholeAttention a = attention_of(by, GENERATE(4, 2));
  Kernels kernels;
  const Qkv x = a.random(11);
  const Values dcontext = random_values(a.context_size(), 7);
  const auto loss = [&](const Values& v) { return dot(dcontext, plain_context(a, unflat(a, v), by)); };
  check_gradient(loss, flat(x), flat(attend_backward(kernels, a, x, by, dcontext)));
}

TEST_CASE("what an indexer learns is the sum of all heads' probabilities of the chosen keys") {
  const Indexer by = any_indexer();
  const WholeAttention a = attention_of(by, GENERATE(4, 2));
  const Qkv x = a.random(11);
  Kernels doubles(DType::fp64), floats(DType::fp32);
  const Values expected = plain_target(a, x, by);
  check_close(target_of(doubles, a, x, by), expected, 1e-14);
  check_close(target_of(floats, a, x, by), expected, 4e-6);
}

TEST_CASE("an indexer's gradients are the slopes of the divergence from its target, the choice held fixed") {
  const Indexer x(GENERATE(1, 2), 2, 5, 3, GENERATE(1, 3, 9));
  REQUIRE(x.nearest() > 4e-3);  // slopes reach so far
  const std::vector<int> lists = x.lists();
  const Values target = some_target(x, lists);
  Kernels kernels;
  const IndexGradient g = gradient(kernels, x, lists, target);
  const auto loss = [&](auto member) {
    return [&, member](const Values& v) {
      Indexer moved = x;
      moved.*member = v;
      return moved.divergence(lists, target);
    };
  };
  const auto check = [&](const Values& got, auto member) {
    if (x.topk > 1) return check_gradient(loss(member), x.*member, got);
    CHECK(std::all_of(got.begin(), got.end(), [](double v) { return v == 0; }));  // one key has all
  };
  check(g.q, &Indexer::q);
  check(g.k, &Indexer::k);
  check(g.w, &Indexer::w);
}

TEST_CASE("an indexer's gradients are scaled as the loss is, and a part of the global batch") {
  const Indexer x;
  const std::vector<int> lists = x.lists();
  const Values target = some_target(x, lists);
  Kernels kernels;
  const Values once = gradient(kernels, x, lists, target).w;
  kernels.table.loss_scale = 8;
  Values more = gradient(kernels, x, lists, target).w;
  for (double& v : more) v /= 8;
  CHECK(more == once);
  const auto quarter =
      kernels.run(IndexTopKBackward{x.dims(), 8 * x.rows()}, {real(target), real(x.q), real(x.k), real(x.w), integers(lists)},
                  {result(x.rows() * 15), result(x.rows() * 5), result(x.rows() * 3)});
  check_close(quarter[2], once, 1e-15);
}

namespace {

/// Rows of `width` numbers of a whole tensor, in the order of a rank's or of all ranks.
Values rows_in(const Values& whole, const RowList& rows, std::int64_t length, std::int64_t width) {
  Values out;
  for (const auto& [s, p] : rows) {
    const Values row = slice(whole, (s * length + p) * width, width);
    out.insert(out.end(), row.begin(), row.end());
  }
  return out;
}
void add_rows(const Values& part, const RowList& rows, std::int64_t length, std::int64_t width, Values& sum) {
  for (std::size_t r = 0; r < rows.size(); ++r)
    for (std::int64_t d = 0; d < width; ++d)
      sum[static_cast<std::size_t>((rows[r].first * length + rows[r].second) * width + d)] +=
          part[r * static_cast<std::size_t>(width) + static_cast<std::size_t>(d)];
}
std::vector<int> integer_rows(const std::vector<int>& whole, const RowList& rows, std::int64_t length, std::int64_t width) {
  return as_integers(rows_in(Values(whole.begin(), whole.end()), rows, length, width));
}

/// A rank of a context group that has gathered keys.
struct ContextRank {
  const Indexer& x;
  std::int64_t size, rank;

  RowList own() const { return rows_of(x.batch, size, rank, x.length); }
  RowList all() const { return rows_by_rank(x.batch, size, x.length); }
  IndexDims dims() const {
    IndexDims d = x.dims();
    d.seq = x.length / size;
    d.keys = x.length;
    return d;
  }
  void on(Kernels& kernels) const {
    kernels.context.context_rank = static_cast<std::int32_t>(rank);
    kernels.context.context_size = static_cast<std::int32_t>(size);
  }
  std::vector<Operand> operands() const {
    return {real(rows_in(x.q, own(), x.length, x.heads * x.dim)), real(rows_in(x.k, all(), x.length, x.dim)),
            real(rows_in(x.w, own(), x.length, x.heads))};
  }
  std::vector<int> lists() const { return integer_rows(x.lists(), own(), x.length, x.listed()); }
};

}  // namespace

TEST_CASE("context ranks choose for their queries what one rank does, and their gradients add up to its own") {
  const Indexer x(2, 3, 24, 5, 7);
  const std::int64_t size = GENERATE(2, 3, 4);
  const Values target = some_target(x, x.lists());
  Kernels alone, kernels;
  const IndexGradient whole = gradient(alone, x, x.lists(), target);
  IndexGradient sum{Values(x.q.size(), 0.0), Values(x.k.size(), 0.0), Values(x.w.size(), 0.0)};
  for (std::int64_t r = 0; r < size; ++r) {
    const ContextRank rank{x, size, r};
    rank.on(kernels);
    const std::vector<Operand> in = rank.operands();
    const auto own = static_cast<std::int64_t>(rank.own().size());
    CHECK(as_integers(kernels.run(IndexTopK{rank.dims()}, in, {integer_result(own * 7)}).front()) == rank.lists());
    const auto out = kernels.run(IndexTopKBackward{rank.dims(), x.rows()},
                                 {real(rows_in(target, rank.own(), 24, 7)), in[0], in[1], in[2], integers(rank.lists())},
                                 {result(own * 15), result(x.rows() * 5), result(own * 3)});
    add_rows(out[0], rank.own(), 24, 15, sum.q);
    add_rows(out[1], rank.all(), 24, 5, sum.k);
    add_rows(out[2], rank.own(), 24, 3, sum.w);
  }
  CHECK(sum.q == whole.q);
  check_close(sum.k, whole.k, 1e-14);
  CHECK(sum.w == whole.w);
}

TEST_CASE("context ranks attend to chosen keys and learn from them as one rank does") {
  const Indexer by(2, 3, 24, 5, 7);
  const std::int64_t size = GENERATE(2, 3);
  const WholeAttention a = attention_of(by, 2);
  const Qkv x = a.random(11);
  const Values dcontext = random_values(a.context_size(), 7);
  Kernels alone, kernels;
  const Values whole = attend(alone, a, x, by).context, target = target_of(alone, a, x, by);
  const Qkv expected = attend_backward(alone, a, x, by, dcontext);
  Values context(whole.size(), 0.0), learned(target.size(), 0.0);
  Qkv sum = a.zeros();
  const std::int64_t width = a.heads * a.wide();
  for (std::int64_t r = 0; r < size; ++r) {
    const ContextRank rank{by, size, r};
    rank.on(kernels);
    const Layout own{a, rank.own()}, all{a, rank.all()};
    AttentionDims d = dims_of(a, by);
    d.seq = 24 / size, d.keys = 24, d.row_shards = size, d.share = AttentionShare::queries, d.kv_packed = false;
    FlashAttention op{d, 0, false};
    FlashAttentionBackward back{d, 0, false};
    op.chosen = back.chosen = true;
    const Operand qkv = real(own.qkv(x)), kv = real(all.kv(x)), lists = integers(rank.lists());
    const auto out = kernels.run(op, {qkv, kv, lists}, {result(own.count() * width), result(a.batch * a.heads * d.seq)});
    const Values p = kernels.one(IndexTarget{d}, {qkv, kv, real(out[1]), lists}, own.count() * 7);
    const auto g = kernels.run(back, {real(rows_in(dcontext, rank.own(), 24, width)), qkv, kv, real(out[0]), real(out[1]), lists},
                               {result(own.qkv_size()), result(all.kv_size())});
    add_rows(out[0], rank.own(), 24, width, context);
    add_rows(p, rank.own(), 24, 7, learned);
    own.add_q_of_qkv(g[0], sum.q);
    all.add_kv(g[1], sum);
  }
  CHECK(context == whole);
  CHECK(learned == target);
  check_close(flat(sum), flat(expected), 1e-14);
}

TEST_CASE("queries that stand apart turn as those beside keys do") {
  const std::int64_t batch = 2, heads = 3, length = 5, dim = 6;
  AttentionDims apart{batch, heads, length, dim};
  apart.q_packed = false;
  Rotary op{apart, 100, GENERATE(false, true)};
  op.heads = RotaryHeads::queries;
  op.turned = GENERATE(0, 4);
  Rotary beside = op;
  beside.dims.q_packed = true;
  const Values q = random_values(batch * length * heads * dim, 1);
  Values qkv(q.size() * 3, 0.5);
  for (std::size_t i = 0; i < q.size(); ++i) qkv[i / 6 * 18 + i % 6] = q[i];
  Kernels kernels;
  const Values got = kernels.run(op, {real(q)}, {real(q)}).front(), packed = kernels.run(beside, {real(qkv)}, {real(qkv)}).front();
  for (std::size_t i = 0; i < q.size(); ++i) CHECK(got[i] == packed[i / 6 * 18 + i % 6]);
}

}  // namespace tandem::exec::test
