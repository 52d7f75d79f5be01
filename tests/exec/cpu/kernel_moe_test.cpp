// Experts: routing, dispatch, combination and the experts' products, against plain loops and slopes.
#include <numeric>

#include "tests/exec/cpu/kernel_harness.hpp"

namespace tandem::exec::test {
namespace {

constexpr std::int64_t kTokens = 13, kHidden = 5, kExperts = 7;

struct Routing {
  Values probs, weights;
  std::vector<int> slots, counts;
};

Routing route(Kernels& kernels, const MoeDims& d, const Values& logits) {
  const std::int64_t choices = d.tokens * d.top_k;
  const auto out = kernels.run(TopKRouter{d}, {real(logits)},
                               {result(d.tokens * d.experts), result(choices), integer_result(choices), integer_result(d.experts)});
  return {out[0], out[1], as_integers(out[2]), as_integers(out[3])};
}

// The same by sorting each token's experts and counting.
struct PlainRouting {
  Values probs, weights;
  std::vector<int> experts, slots, counts;

  PlainRouting(const MoeDims& d, const Values& logits) : counts(static_cast<std::size_t>(d.experts), 0) {
    for (std::int64_t t = 0; t < d.tokens; ++t) add_token(d, slice(logits, t * d.experts, d.experts));
    for (const int e : experts) ++counts[static_cast<std::size_t>(e)];
    std::vector<int> taken(counts.size(), 0);
    for (const int e : experts) {
      const int earlier = std::accumulate(counts.begin(), counts.begin() + e, 0), place = taken[static_cast<std::size_t>(e)]++;
      const auto capacity = static_cast<int>(d.capacity);
      slots.push_back(capacity == 0 ? earlier + place : place < capacity ? e * capacity + place : -1);
    }
  }
  void add_token(const MoeDims& d, const Values& x) {
    double total = 0, chosen = 0;
    for (const double l : x) total += std::exp(l);
    std::vector<int> order(x.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(),
                     [&](int a, int b) { return x[static_cast<std::size_t>(a)] > x[static_cast<std::size_t>(b)]; });
    for (const double l : x) probs.push_back(std::exp(l) / total);
    for (std::int64_t j = 0; j < d.top_k; ++j)
      chosen += std::exp(x[static_cast<std::size_t>(order[static_cast<std::size_t>(j)])]) / total;
    for (std::int64_t j = 0; j < d.top_k; ++j) {
      const int e = order[static_cast<std::size_t>(j)];
      experts.push_back(e);
      weights.push_back(std::exp(x[static_cast<std::size_t>(e)]) / total / (d.top_k > 1 ? chosen : 1));
    }
  }
};

MoeDims dims() { return {kTokens, kHidden, kExperts, GENERATE(1, 2, 3), GENERATE(0, 2, 4)}; }

Values logits_of(const MoeDims& d) { return random_values(d.tokens * d.experts, 3); }

}  // namespace

TEST_CASE("the router's probabilities, weights, rows and counts are those of plain loops") {
  const MoeDims d = dims();
  Kernels doubles(DType::fp64), floats(DType::fp32);
  const PlainRouting expected(d, logits_of(d));
  const Routing r = route(doubles, d, logits_of(d)), f = route(floats, d, logits_of(d));
  check_close(r.probs, expected.probs, 1e-14);
  check_close(r.weights, expected.weights, 1e-14);
  check_close(f.weights, expected.weights, 1e-6);
  CHECK(r.slots == expected.slots);
  CHECK(r.counts == expected.counts);
  CHECK(f.slots == expected.slots);
}

TEST_CASE("the lower expert wins a tie, and choices beyond the capacity are dropped in order of tokens") {
  Kernels kernels;
  const Values logits{1, 1, 0, 1, 1, 0, 1, 1, 0, 0, 0, 2};  // four tokens, three experts
  const Routing r = route(kernels, {4, 1, 3, 2, 2}, logits);
  CHECK(r.slots == std::vector<int>{0, 2, 1, 3, -1, -1, 4, -1});
  CHECK(r.counts == std::vector<int>{4, 3, 1});
  const Routing all = route(kernels, {4, 1, 3, 2, 0}, logits);
  CHECK(all.slots == std::vector<int>{0, 4, 1, 5, 2, 6, 7, 3});
}

TEST_CASE("the router's gradient equals slopes with the choices held, its balancing loss included") {
  const MoeDims d = dims();
  const double aux = GENERATE(0.0, 0.7);
  constexpr std::int64_t micro_batches = 3;
  Kernels kernels;
  const Values logits = logits_of(d), dweights = random_values(d.tokens * d.top_k, 4);
  const Routing held = route(kernels, d, logits);
  const auto loss = [&](const Values& v) {
    const Routing r = route(kernels, d, v);
    REQUIRE(r.slots == held.slots);  // no slope is taken across a change of choices
    double balance = 0;
    for (std::int64_t e = 0; e < d.experts; ++e) {
      double mean = 0;
      for (std::int64_t t = 0; t < d.tokens; ++t)
        mean += r.probs[static_cast<std::size_t>(t * d.experts + e)] / static_cast<double>(d.tokens);
      balance += mean * held.counts[static_cast<std::size_t>(e)] / static_cast<double>(d.tokens * d.top_k);
    }
    return dot(dweights, r.weights) + aux * static_cast<double>(d.experts) * balance / micro_batches;
  };
  const Values g =
      kernels.one(TopKRouterBackward{d, aux, micro_batches},
                  {real(dweights), real(held.probs), real(held.weights), integers(held.slots), integers(held.counts), real(logits)},
                  d.tokens * d.experts);
  check_gradient(loss, logits, g);
}

TEST_CASE("rows go where the slots say, rows nobody takes are zero, and the gradient equals slopes") {
  const MoeDims d = dims();
  Kernels kernels;
  const Routing r = route(kernels, d, logits_of(d));
  const Values x = random_values(d.tokens * kHidden, 1), drows = random_values(d.rows() * kHidden, 2);
  const auto forward = [&](const Values& v) {
    return kernels.one(MoeDispatch{d}, {real(v), integers(r.slots)}, d.rows() * kHidden);
  };
  Values expected(static_cast<std::size_t>(d.rows() * kHidden), 0.0);
  for (std::size_t i = 0; i < r.slots.size(); ++i) {
    if (r.slots[i] < 0) continue;
    const auto token = static_cast<std::int64_t>(i) / d.top_k;
    std::copy_n(x.begin() + token * kHidden, kHidden, expected.begin() + r.slots[i] * kHidden);
  }
  CHECK(forward(x) == expected);
  const Values dx = kernels.one(MoeDispatchBackward{d}, {real(drows), integers(r.slots)}, d.tokens * kHidden);
  check_gradient([&](const Values& v) { return dot(drows, forward(v)); }, x, dx);
}

TEST_CASE("rows come back weighted, and the gradients of rows and weights equal slopes") {
  const MoeDims d = dims();
  Kernels kernels;
  const Routing r = route(kernels, d, logits_of(d));
  const Values rows = random_values(d.rows() * kHidden, 1), dy = random_values(d.tokens * kHidden, 2);
  const auto forward = [&](const Values& x, const Values& w) {
    return kernels.one(MoeCombine{d}, {real(x), integers(r.slots), real(w)}, d.tokens * kHidden);
  };
  Values expected(dy.size(), 0.0);
  for (std::size_t i = 0; i < r.slots.size(); ++i)
    for (std::size_t c = 0; c < kHidden && r.slots[i] >= 0; ++c)
      expected[i / static_cast<std::size_t>(d.top_k) * kHidden + c] +=
          r.weights[i] * rows[static_cast<std::size_t>(r.slots[i]) * kHidden + c];
  check_close(forward(rows, r.weights), expected, 1e-15);
  const auto g = kernels.run(MoeCombineBackward{d}, {real(dy), real(rows), integers(r.slots), real(r.weights)},
                             {result(d.rows() * kHidden), result(d.tokens * d.top_k)});
  check_gradient([&](const Values& v) { return dot(dy, forward(v, r.weights)); }, rows, g[0]);
  check_gradient([&](const Values& v) { return dot(dy, forward(rows, v)); }, r.weights, g[1]);
}

TEST_CASE("weights may multiply rows on their way to experts, and then not on their way back") {
  const MoeDims d = dims();
  Kernels kernels;
  const Routing r = route(kernels, d, logits_of(d));
  const Values x = random_values(d.tokens * kHidden, 1), drows = random_values(d.rows() * kHidden, 2);
  const auto forward = [&](const Values& v, const Values& w) {
    return kernels.one(MoeDispatch{d, true}, {real(v), integers(r.slots), real(w)}, d.rows() * kHidden);
  };
  Values expected(drows.size(), 0.0);
  for (std::size_t i = 0; i < r.slots.size(); ++i)
    for (std::size_t c = 0; c < kHidden && r.slots[i] >= 0; ++c) {
      const std::size_t token = i / static_cast<std::size_t>(d.top_k);
      expected[static_cast<std::size_t>(r.slots[i]) * kHidden + c] = r.weights[i] * x[token * kHidden + c];
    }
  CHECK(forward(x, r.weights) == expected);
  const auto g = kernels.run(MoeDispatchBackward{d, true}, {real(drows), integers(r.slots), real(x), real(r.weights)},
                             {result(d.tokens * kHidden), result(d.tokens * d.top_k)});
  check_gradient([&](const Values& v) { return dot(drows, forward(v, r.weights)); }, x, g[0]);
  check_gradient([&](const Values& v) { return dot(drows, forward(x, v)); }, r.weights, g[1]);

  const Values rows = random_values(d.rows() * kHidden, 3), dy = random_values(d.tokens * kHidden, 4);
  const auto combine = [&](const Values& v) {
    return kernels.one(MoeCombine{d, false}, {real(v), integers(r.slots)}, d.tokens * kHidden);
  };
  check_close(combine(rows), kernels.one(MoeDispatchBackward{d}, {real(rows), integers(r.slots)}, d.tokens * kHidden), 1e-15);
  check_gradient([&](const Values& v) { return dot(dy, combine(v)); }, rows,
                 kernels.one(MoeCombineBackward{d, false}, {real(dy), integers(r.slots)}, d.rows() * kHidden));
}

TEST_CASE("a row beyond the experts' is a broken promise") {
  Kernels kernels;
  CHECK_THROWS_AS(kernels.one(MoeDispatch{{1, 1, 2, 1, 0}}, {real({1}), integers({1})}, 1), std::exception);
}

namespace {

// Rows of every group and the expert of each.
struct Groups {
  std::int64_t experts = 3, groups = 6, m = 4, n = 5, k = 7;
  bool ragged = false;
  std::vector<int> counts{11, 0, 13};  ///< of one rank's experts, then of the next one's

  std::int64_t ranks() const { return static_cast<std::int64_t>(counts.size()) / experts; }
  std::int64_t rows() const { return ragged ? std::accumulate(counts.begin(), counts.end(), std::int64_t{0}) : groups * m; }
  std::int64_t expert(std::int64_t row) const {
    if (!ragged) return row / m % experts;
    std::size_t part = 0;
    for (std::int64_t end = counts[0]; row >= end; end += counts[part]) ++part;
    return static_cast<std::int64_t>(part) % experts;
  }
  GroupedMatMul forward(bool trans_b) const {
    return {ragged ? ranks() : groups, experts, ragged ? rows() : m, n, k, trans_b, ragged};
  }
  std::vector<Operand> operands(const Values& a, const Values& b) const {
    std::vector<Operand> all{real(a), real(b)};
    if (ragged) all.push_back(integers(counts));
    return all;
  }
};

Values plain_product(const Groups& s, const Values& a, const Values& b, bool trans_b) {
  Values c;
  for (std::int64_t r = 0; r < s.rows(); ++r)
    for (std::int64_t j = 0; j < s.n; ++j) {
      double sum = 0;
      for (std::int64_t i = 0; i < s.k; ++i) {
        const std::int64_t at = s.expert(r) * s.k * s.n + (trans_b ? j * s.k + i : i * s.n + j);
        sum += a[static_cast<std::size_t>(r * s.k + i)] * b[static_cast<std::size_t>(at)];
      }
      c.push_back(sum);
    }
  return c;
}

}  // namespace

TEST_CASE("grouped products are each expert's own, of equal groups and of ragged ones") {
  Groups s;
  s.groups = GENERATE(3, 6);  // rows of one rank, of two
  s.ragged = GENERATE(false, true);
  // One rank's; two ranks', of which some have none; two ranks' that are many.
  if (s.ragged)
    s.counts = GENERATE(values<std::vector<int>>({{11, 0, 13}, {5, 0, 6, 4, 0, 9}, {0, 7, 3, 6, 2, 0}, {300, 0, 700, 512, 9, 99}}));
  const bool trans_b = GENERATE(false, true);
  const Values a = random_values(s.rows() * s.k, 1), b = random_values(s.experts * s.k * s.n, 2);
  Kernels kernels;
  const Op op = s.forward(trans_b);
  check_close(kernels.one(op, s.operands(a, b), s.rows() * s.n), plain_product(s, a, b, trans_b), 1e-14);
  CHECK(kernels.backend->counters().gemm_flops == matrix_flops(op).count());
  CHECK(matrix_flops(op).count() == 2 * s.rows() * s.n * s.k);
}

TEST_CASE("the experts' gradients equal slopes") {
  Groups s;
  s.groups = GENERATE(3, 6);  // rows of one rank, of two
  s.ragged = GENERATE(false, true);
  if (s.ragged) s.counts = GENERATE(values<std::vector<int>>({{11, 0, 13}, {5, 0, 6, 4, 0, 9}, {0, 7, 3, 6, 2, 0}}));
  const Values x = random_values(s.rows() * s.k, 1), w = random_values(s.experts * s.n * s.k, 2),
               dy = random_values(s.rows() * s.n, 3);
  Kernels kernels;
  const auto forward = [&](const Values& a, const Values& b) {
    return kernels.one(s.forward(true), s.operands(a, b), s.rows() * s.n);
  };
  GroupedMatMul back = s.forward(false);
  std::swap(back.n, back.k);
  const GroupedWeightGrad weight{back.groups, s.experts, back.m, s.n, s.k, s.ragged};
  check_gradient([&](const Values& v) { return dot(dy, forward(v, w)); }, x, kernels.one(back, s.operands(dy, w), s.rows() * s.k));
  const std::int64_t before = kernels.backend->counters().gemm_flops;
  const Values dw = kernels.one(weight, s.operands(dy, x), s.experts * s.n * s.k);
  CHECK(kernels.backend->counters().gemm_flops - before == matrix_flops(weight).count());
  check_gradient([&](const Values& v) { return dot(dy, forward(x, v)); }, w, dw);
}

TEST_CASE("every row gets its expert's bias, once over tensor ranks if so asked, and gives it its gradient") {
  Groups s;
  s.ragged = GENERATE(false, true);
  const Values x = random_values(s.rows() * s.n, 1), bias = random_values(s.experts * s.n, 2),
               dy = random_values(s.rows() * s.n, 3);
  Kernels kernels;
  const std::int64_t groups = s.forward(false).groups, m = s.forward(false).m;
  const auto forward = [&](const Values& b, bool once) {
    return kernels.run(GroupedBias{groups, s.experts, m, s.n, once, s.ragged}, s.operands(x, b), {real(x)}).front();
  };
  Values expected = x;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const auto row = static_cast<std::int64_t>(i) / s.n, column = static_cast<std::int64_t>(i) % s.n;
    expected[i] += bias[static_cast<std::size_t>(s.expert(row) * s.n + column)];
  }
  CHECK(forward(bias, true) == expected);
  std::vector<Operand> in{real(dy)};
  if (s.ragged) in.push_back(integers(s.counts));
  const Values dbias = kernels.one(GroupedBiasGrad{groups, s.experts, m, s.n, s.ragged}, in, s.experts * s.n);
  check_gradient([&](const Values& v) { return dot(dy, forward(v, false)); }, bias, dbias);
  kernels.context.tensor_size = 2;
  kernels.context.tensor_rank = 1;
  CHECK(forward(bias, true) == expected);  // the ranks that share experts' matrices need not be the tensor ranks
  kernels.context.expert_tensor_rank = 1;
  CHECK(forward(bias, false) == expected);
  CHECK(forward(bias, true) == x);
}

TEST_CASE("counts that are not all the rows are a broken promise") {
  Groups s;
  s.ragged = true;
  const GroupedMatMul op = s.forward(true);  // of 24 rows
  s.counts = {11, 0, 12};
  Kernels kernels;
  CHECK_THROWS_AS(kernels.one(op, s.operands(Values(24 * 7, 1.0), Values(3 * 35, 1.0)), 24 * 5), ContractError);
}

}  // namespace tandem::exec::test
