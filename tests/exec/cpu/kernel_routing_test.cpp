// Routing by sigmoids, within groups of experts and with a balancing bias, against plain loops and slopes.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "tests/exec/cpu/kernel_harness.hpp"

namespace tandem::exec::test {
namespace {

constexpr std::int64_t kTokens = 19, kExperts = 12;

struct Routed {
  Values scores, weights;
  std::vector<int> slots, counts;
};

/// A rule, the number of choices, and the bias.
struct Case {
  RouterRule rule;
  std::int64_t top_k;
  Values bias;

  MoeDims dims() const { return {kTokens, 5, kExperts, top_k, 0}; }
  std::vector<Operand> operands(std::vector<Operand> first) const {
    if (rule.bias) first.push_back(real(bias));
    return first;
  }
  Routed route(Kernels& kernels, const Values& logits) const {
    const std::int64_t choices = kTokens * top_k;
    const auto out = kernels.run(TopKRouter{dims(), rule}, operands({real(logits)}),
                                 {result(kTokens * kExperts), result(choices), integer_result(choices), integer_result(kExperts)});
    return {out[0], out[1], as_integers(out[2]), as_integers(out[3])};
  }
};

constexpr RouterScores kSoftmax = RouterScores::softmax, kSigmoid = RouterScores::sigmoid;
constexpr GroupScore kMax = GroupScore::max, kTop2 = GroupScore::top2;

std::vector<Case> cases() {
  Values bias = random_values(kExperts, 8);
  for (double& b : bias) b *= 0.3;
  return {{{kSigmoid}, 3, {}},
          {{kSoftmax, false, 16}, 3, {}},
          {{kSigmoid, true, 2.5, 4, 2, kTop2, true}, 4, bias},
          {{kSigmoid, true, 1, 3, 1, kTop2, true}, 2, bias},
          {{kSoftmax, false, 1, 6, 3, kMax}, 5, {}},
          {{kSigmoid, false, 0.5, 0, 0, kMax, true}, 1, bias},
          {{kSoftmax, true, 1.5, 12, 5, kMax, true}, 3, bias}};
}

/// One token, by sorting: first its groups, then the experts of the best ones.
class PlainToken {
 public:
  PlainToken(const Case& c, const Values& logits) {
    double total = 0;
    for (const double x : logits) total += std::exp(x);
    for (const double x : logits) scores.push_back(c.rule.scores == kSigmoid ? 1 / (1 + std::exp(-x)) : std::exp(x) / total);
    keys_ = scores;
    for (std::size_t e = 0; c.rule.bias && e < keys_.size(); ++e) keys_[e] += c.bias[e];
    std::vector<int> open(kExperts);
    std::iota(open.begin(), open.end(), 0);
    if (c.rule.groups > 0) open = members(c.rule);
    experts = best(open, keys_, c.top_k);
    double sum = 0;
    for (const int e : experts) sum += scores[static_cast<std::size_t>(e)];
    const double divisor = c.rule.normalize && c.top_k > 1 ? sum : 1;
    for (const int e : experts) weights.push_back(scores[static_cast<std::size_t>(e)] / divisor * c.rule.scale);
  }

  Values scores, weights;
  std::vector<int> experts;

 private:
  static std::vector<int> best(std::vector<int> of, const Values& by, std::int64_t count) {
    std::stable_sort(of.begin(), of.end(),
                     [&](int a, int b) { return by[static_cast<std::size_t>(a)] > by[static_cast<std::size_t>(b)]; });
    of.resize(static_cast<std::size_t>(count));
    return of;
  }
  std::vector<int> members(const RouterRule& r) const {
    const auto size = static_cast<int>(kExperts / r.groups);
    Values of_groups;
    std::vector<int> all, open;
    for (int g = 0; g < static_cast<int>(r.groups); ++g) {
      Values keys = slice(keys_, g * size, size);
      std::sort(keys.rbegin(), keys.rend());
      of_groups.push_back(r.group_score == kTop2 ? keys[0] + keys[1] : keys[0]);
      all.push_back(g);
    }
    for (const int g : best(all, of_groups, r.kept_groups))
      for (int e = 0; e < size; ++e) open.push_back(g * size + e);
    std::sort(open.begin(), open.end());
    return open;
  }
  Values keys_;
};

Values logits() { return random_values(kTokens * kExperts, 3); }

void check_routed(const Case& c, const Routed& r, double tolerance) {
  Values scores, weights;
  std::vector<int> counts(kExperts, 0), chosen;
  for (std::int64_t t = 0; t < kTokens; ++t) {
    const PlainToken token(c, slice(logits(), t * kExperts, kExperts));
    scores = concatenated(scores, token.scores);
    weights = concatenated(weights, token.weights);
    for (const int e : token.experts) ++counts[static_cast<std::size_t>(e)], chosen.push_back(e);
  }
  check_close(r.scores, scores, tolerance);
  check_close(r.weights, weights, tolerance);
  CHECK(r.counts == counts);
  std::vector<int> next(kExperts, 0), slots;
  for (int e = 1; e < kExperts; ++e)
    next[static_cast<std::size_t>(e)] = next[static_cast<std::size_t>(e - 1)] + counts[static_cast<std::size_t>(e - 1)];
  for (const int e : chosen) slots.push_back(next[static_cast<std::size_t>(e)]++);
  CHECK(r.slots == slots);
}

}  // namespace

TEST_CASE("experts are chosen and weighed as plain loops do it: by scores of either kind, in groups, with a bias, scaled") {
  const auto all = cases();
  for (std::size_t i = 0; i < all.size(); ++i) {
    CAPTURE(i);
    Kernels doubles(DType::fp64), floats(DType::fp32);
    check_routed(all[i], all[i].route(doubles, logits()), 1e-14);
    check_routed(all[i], all[i].route(floats, logits()), 2e-6);
  }
}

TEST_CASE("the bias changes the choice and no weight of an expert that is chosen with and without it") {
  Case with = cases()[5], without = with;
  without.rule.bias = false;
  Kernels kernels;
  const Routed a = with.route(kernels, logits()), b = without.route(kernels, logits());
  CHECK(a.scores == b.scores);
  CHECK(a.counts != b.counts);
}

TEST_CASE("the lower group and the lower expert win a tie") {
  Kernels kernels;
  const RouterRule rule{kSigmoid, true, 1, 2, 1, kTop2};
  const MoeDims d{2, 1, 4, 1, 0};
  const auto out = kernels.run(TopKRouter{d, rule}, {real({1, 2, 2, 1, 0, 0, 1, 1})},
                               {result(8), result(2), integer_result(2), integer_result(4)});
  CHECK(as_integers(out[3]) == std::vector<int>{0, 1, 1, 0});
}

TEST_CASE("a token whose scores are no numbers still goes to as many different experts") {
  Kernels kernels;
  const Case c = GENERATE(from_range(cases()));
  Values input = logits();
  const Routed before = c.route(kernels, input);
  constexpr std::size_t kToken = 4;
  const auto first = input.begin() + kToken * kExperts;
  std::fill(first, first + kExperts, std::nan(""));
  const Routed after = c.route(kernels, input);
  CHECK(std::accumulate(after.counts.begin(), after.counts.end(), 0) == kTokens * c.top_k);
  std::vector<int> changed = after.counts;
  for (std::size_t e = 0; e < changed.size(); ++e) changed[e] -= before.counts[e];
  CHECK(std::count_if(changed.begin(), changed.end(), [](int n) { return n > 1 || n < -1; }) == 0);  // each expert once
  std::vector<int> rows = after.slots;
  std::sort(rows.begin(), rows.end());
  for (int i = 0; i < static_cast<int>(rows.size()); ++i) CHECK(rows[static_cast<std::size_t>(i)] == i);
}

TEST_CASE("the gradient of every routing equals slopes with the choices held, the balancing loss included") {
  for (const Case& c : cases())
    for (const double aux : {0.0, 0.7}) {
      CAPTURE(aux, c.top_k, c.rule.groups);
      constexpr std::int64_t micro_batches = 3;
      Kernels kernels;
      const MoeDims d = c.dims();
      const Values x = logits(), dweights = random_values(kTokens * c.top_k, 4);
      const Routed held = c.route(kernels, x);
      const auto loss = [&](const Values& v) {
        const Routed r = c.route(kernels, v);
        REQUIRE(r.slots == held.slots);  // no slope is taken across a change of choices
        double balance = 0;
        for (std::int64_t t = 0; t < kTokens; ++t) {
          const Values s = slice(r.scores, t * kExperts, kExperts);
          const double sum = std::accumulate(s.begin(), s.end(), 0.0);
          for (std::size_t e = 0; e < s.size(); ++e)
            balance += s[e] / sum / kTokens * held.counts[e] / static_cast<double>(kTokens * c.top_k);
        }
        return dot(dweights, r.weights) + aux * kExperts * balance / micro_batches;
      };
      const Values g = kernels.one(TopKRouterBackward{d, aux, micro_batches, c.rule},
                                   c.operands({real(dweights), real(held.scores), real(held.weights), integers(held.slots),
                                               integers(held.counts), real(x)}),
                                   kTokens * kExperts);
      check_gradient(loss, x, g);
    }
}

TEST_CASE("the z-loss' gradient equals slopes of the mean squared logarithm of summed exponentials, with scores of either kind") {
  constexpr std::int64_t micro_batches = 3;
  constexpr double z = 0.7;
  for (const Case& c : cases()) {
    CAPTURE(c.top_k, c.rule.groups);
    Kernels kernels;
    const Values x = logits();
    const Routed held = c.route(kernels, x);
    const auto loss = [&](const Values& v) {
      double sum = 0;
      for (std::int64_t t = 0; t < kTokens; ++t) {
        double exponentials = 0;
        for (const double logit : slice(v, t * kExperts, kExperts)) exponentials += std::exp(logit);
        sum += std::log(exponentials) * std::log(exponentials);
      }
      return z * sum / kTokens / micro_batches;
    };
    const auto gradient = [&](double weight, const Values& dweights) {
      return kernels.one(TopKRouterBackward{c.dims(), 0.2, micro_batches, c.rule, weight},
                         c.operands({real(dweights), real(held.scores), real(held.weights), integers(held.slots),
                                     integers(held.counts), real(x)}),
                         kTokens * kExperts);
    };
    const Values dweights = random_values(kTokens * c.top_k, 4), without = gradient(0, dweights);
    Values added = gradient(z, dweights);  // to the other gradients
    for (std::size_t i = 0; i < added.size(); ++i) added[i] -= without[i];
    check_gradient(loss, x, added);
  }
}

TEST_CASE("the z-loss of logits whose exponentials overflow is finite") {
  Kernels kernels;
  const MoeDims d{2, 1, 3, 1, 0};
  const Values x{2000, 2000, 0, -2000, -2001, -2000};
  const Values got = kernels.one(TopKRouterBackward{d, 0, 1, {}, 1},
                                 {real({0, 0}), real({0.5, 0.5, 0, 0.4, 0.2, 0.4}), real({1, 1}), integers({0, 1}),
                                  integers({2, 0, 0}), real(x)},
                                 6);
  const double first = 2000 + std::log(2), inverse = std::exp(-1.0), second = -2000 + std::log(2 + inverse);
  const double share = second / (2 + inverse);
  check_close(got, {first / 2, first / 2, 0, share, share * inverse, share}, 1e-12);
}

TEST_CASE("a learned number of each expert multiplies its weights, and its gradient equals slopes") {
  Kernels kernels;
  for (Case c : cases()) {
    if (c.rule.normalize && c.top_k == 1) continue;
    CAPTURE(c.top_k, c.rule.groups);
    const Values x = logits(), dweights = random_values(kTokens * c.top_k, 4), scales = random_values(kExperts, 5);
    const Routed plain = c.route(kernels, x);
    c.rule.expert_scale = true;
    const std::int64_t choices = kTokens * c.top_k;
    const auto weights = [&](const Values& at, const Values& of) {
      std::vector<Operand> in = c.operands({real(at)});
      in.push_back(real(of));
      const auto out = kernels.run(
          TopKRouter{c.dims(), c.rule}, in,
          {result(kTokens * kExperts), result(choices), integer_result(choices), integer_result(kExperts)});
      REQUIRE(as_integers(out[2]) == plain.slots);
      return out[1];
    };
    check_close(weights(x, Values(kExperts, 2.0)), [&] {
      Values twice = plain.weights;
      for (double& w : twice) w *= 2;
      return twice;
    }(), 1e-15);
    std::vector<Operand> in = c.operands({real(dweights), real(plain.scores), real(weights(x, scales)), integers(plain.slots),
                                          integers(plain.counts), real(x)});
    in.push_back(real(scales));
    const auto got = kernels.run(TopKRouterBackward{c.dims(), 0, 1, c.rule}, in, {result(kTokens * kExperts), result(kExperts)});
    check_gradient([&](const Values& v) { return dot(dweights, weights(v, scales)); }, x, got[0]);
    check_gradient([&](const Values& v) { return dot(dweights, weights(x, v)); }, scales, got[1]);
  }
}

TEST_CASE("what balances experts is their load beyond the mean, the same however the batch is split, and 0 where all are equal") {
  for (const DType dtype : {DType::fp64, DType::fp32}) {
    Kernels kernels(dtype);
    const MoeDims part{6, 1, 4, 2, 0}, whole{12, 1, 4, 2, 0};
    const auto grad = [&](const MoeDims& d, std::int64_t micro_batches, const std::vector<int>& counts) {
      return kernels.one(BalanceGrad{d, micro_batches}, {integers(counts)}, 4);
    };
    const Values first = grad(part, 2, {6, 3, 3, 0}), second = grad(part, 2, {0, 6, 3, 3}), all = grad(whole, 1, {6, 9, 6, 3});
    CHECK(all == Values{0, 12.0 / 128, 0, -12.0 / 128});  // 12 choices each are 24 of 96, the next power of two is 128
    for (std::size_t e = 0; e < 4; ++e) CHECK(first[e] + second[e] == all[e]);
  }
}

}  // namespace tandem::exec::test
