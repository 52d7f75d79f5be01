// RMSNorm, gated activations, rotary positions and grouped queries: against plain loops and numerical slopes.
#include "tests/exec/cpu/kernel_harness.hpp"

namespace tandem::exec::test {
namespace {

constexpr std::int64_t kRows = 3, kCols = 7;

struct Rms {
  Values x = random_values(kRows * kCols, 1), gamma = random_values(kCols, 2), dy = random_values(kRows * kCols, 3);
  Values residual = random_values(kRows * kCols, 4);

  std::vector<Values> forward(Kernels& k) const {
    return k.run(LayerNorm{kRows, kCols, 1e-5, true}, {real(x), real(gamma)}, {result(kRows * kCols), result(2 * kRows)});
  }
  std::vector<Values> backward(Kernels& k, bool add) const {
    std::vector<Operand> in{real(dy), real(x), real(forward(k)[1]), real(gamma)};
    if (add) in.push_back(real(residual));
    return k.run(LayerNormBackward{kRows, kCols, add, true}, in, {result(kRows * kCols), result(kCols)});
  }
};

/// Queries of six heads in two groups, each with one head of keys and values.
const AttentionDims kGrouped{2, 6, 5, 4, 2};
/// The same with every query head's keys and values written out.
const AttentionDims kRepeated{2, 6, 5, 4};

/// qkv of kGrouped with keys and values repeated for every head, as kRepeated has them.
Values repeated(const Values& qkv) {
  const std::int64_t dim = kGrouped.head_dim, queries = kGrouped.heads / kGrouped.kv_heads;
  Values out;
  for (std::int64_t token = 0; token < kGrouped.batch * kGrouped.seq; ++token)
    for (std::int64_t h = 0; h < kGrouped.heads; ++h) {
      const std::int64_t group = token * kGrouped.qkv_width() + h / queries * (queries + 2) * dim;
      for (const std::int64_t place : {h % queries, queries, queries + 1})
        for (std::int64_t i = 0; i < dim; ++i) out.push_back(qkv[static_cast<std::size_t>(group + place * dim + i)]);
    }
  return out;
}

}  // namespace

TEST_CASE("RMSNorm divides by the root of the mean square and nothing else") {
  Kernels kernels;
  const Rms c;
  const auto y = c.forward(kernels);
  for (std::int64_t r = 0; r < kRows; ++r) {
    double square = 0;
    for (std::int64_t i = 0; i < kCols; ++i)
      square += c.x[static_cast<std::size_t>(r * kCols + i)] * c.x[static_cast<std::size_t>(r * kCols + i)];
    const double rstd = 1 / std::sqrt(square / kCols + 1e-5);
    CHECK(y[1][static_cast<std::size_t>(2 * r)] == 0);
    for (std::int64_t i = 0; i < kCols; ++i) {
      const auto at = static_cast<std::size_t>(r * kCols + i);
      CHECK(y[0][at] == Approx(c.x[at] * rstd * c.gamma[static_cast<std::size_t>(i)]).epsilon(1e-14));
    }
  }
}

TEST_CASE("RMSNorm's gradients equal slopes along every axis, and its residual is added") {
  Kernels kernels;
  const Rms c;
  const auto g = c.backward(kernels, false), with = c.backward(kernels, true);
  const auto loss = [&](auto member) {
    return [&, member](const Values& v) {
      Rms moved = c;
      moved.*member = v;
      return dot(c.dy, moved.forward(kernels)[0]);
    };
  };
  check_gradient(loss(&Rms::x), c.x, g[0]);
  check_gradient(loss(&Rms::gamma), c.gamma, g[1]);
  Values sum = g[0];
  for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += c.residual[i];
  check_close(with[0], sum, 4e-16);  // a fused multiply-add rounds once less
}

/// By the papers' formulas, and openai/gpt-oss' for the clamped one.
double gated(GateKind kind, double gate, double up) {
  if (kind == GateKind::silu) return gate / (1 + std::exp(-gate)) * up;
  if (kind == GateKind::gelu_tanh) {
    const double u = std::sqrt(2 / 3.14159265358979323846) * (gate + 0.044715 * gate * gate * gate);
    return 0.5 * gate * (1 + std::tanh(u)) * up;
  }
  const double g = std::min(gate, 7.0), u = std::clamp(up, -7.0, 7.0);
  return g / (1 + std::exp(-1.702 * g)) * (u + 1);
}

TEST_CASE("a gated activation is act(gate) times up, and its gradient equals slopes along every axis") {
  const auto kind = GENERATE(GateKind::silu, GateKind::gelu_tanh, GateKind::clamped_silu);
  Kernels kernels;
  Values x = random_values(2 * kRows * kCols, 5);
  const Values dy = random_values(kRows * kCols, 6);
  if (kind == GateKind::clamped_silu)
    for (double& v : x) v *= 9;  // beyond the clamps at 7
  const auto forward = [&](const Values& v) {
    return kernels.one(GatedPointwise{kRows, kCols, kind}, {real(v)}, kRows * kCols);
  };
  const Values y = forward(x);
  for (std::size_t i = 0; i < y.size(); ++i) {
    CHECK(y[i] == Approx(gated(kind, x[2 * i], x[2 * i + 1])).epsilon(1e-14));
  }
  const Values dx = kernels.one(GatedPointwiseBackward{kRows, kCols, kind}, {real(dy), real(x)}, 2 * kRows * kCols);
  check_gradient([&](const Values& v) { return dot(dy, forward(v)); }, x, dx);
}

TEST_CASE("rotary embedding turns pairs of queries and keys by position, leaves values, and its inverse undoes it") {
  Kernels kernels;
  const std::int64_t n = kGrouped.batch * kGrouped.seq * kGrouped.qkv_width();
  const Values x = random_values(n, 7);
  const auto turned = [&](const Values& v, bool inverse) {
    return kernels.run(Rotary{kGrouped, 100.0, inverse}, {real(v)}, {real(v)})[0];
  };
  const Values y = turned(x, false);
  const std::int64_t dim = 4, queries = 3;
  for (std::int64_t token = 0; token < kGrouped.batch * kGrouped.seq; ++token)
    for (std::int64_t head = 0; head < kGrouped.qkv_width() / dim; ++head)
      for (std::int64_t i = 0; i < dim / 2; ++i) {
        const auto at = static_cast<std::size_t>(token * kGrouped.qkv_width() + head * dim + i);
        const bool value = head % (queries + 2) == queries + 1;
        const double angle =
            value ? 0 : static_cast<double>(token % kGrouped.seq) * std::pow(100.0, -2.0 * static_cast<double>(i) / dim);
        CHECK(y[at] == Approx(x[at] * std::cos(angle) - x[at + 2] * std::sin(angle)).epsilon(1e-14).margin(1e-15));
        CHECK(y[at + 2] == Approx(x[at + 2] * std::cos(angle) + x[at] * std::sin(angle)).epsilon(1e-14).margin(1e-15));
      }
  check_close(turned(y, true), x, 1e-15);
  // A rotation's gradient is the inverse rotation: <dy, R v> has gradient R^-1 dy.
  const Values dy = random_values(n, 8);
  check_gradient([&](const Values& v) { return dot(dy, turned(v, false)); }, x, turned(dy, true));
}

namespace {

/// Angle by which the first pair's neighbours of every frequency of one head turn at a position: of a query (1, 0).
double angle(Kernels& kernels, const Rotary& op, std::int64_t row, std::int64_t pair) {
  const std::int64_t width = op.dims.qkv_width(), half = op.dims.head_dim / 2;
  Values x(static_cast<std::size_t>(op.dims.batch * op.dims.seq * width), 0.0);
  x[static_cast<std::size_t>(row * width + pair)] = 1;
  const Values y = kernels.run(op, {real(x)}, {real(x)})[0];
  return std::atan2(y[static_cast<std::size_t>(row * width + pair + half)], y[static_cast<std::size_t>(row * width + pair)]);
}

}  // namespace

TEST_CASE("linear scaling divides the position by its factor") {
  Kernels kernels;
  const AttentionDims dims{1, 1, 8, 6};
  const Rotary scaled{dims, 10000, false, RopeScalingKind::linear, 2.5};
  for (std::int64_t p = 0; p < 8; ++p)
    for (std::int64_t i = 0; i < 3; ++i) {
      const double expected = static_cast<double>(p) / 2.5 * std::pow(10000.0, -static_cast<double>(i) / 3);
      CHECK(angle(kernels, scaled, p, i) == Approx(expected).epsilon(1e-14).margin(1e-15));
    }
}

TEST_CASE("llama3 scaling stretches long waves, keeps short ones and joins them smoothly, as published with Llama 3.1") {
  Kernels kernels;
  const AttentionDims dims{1, 1, 2, 128};
  const Rotary scaled{dims, 500000, false, RopeScalingKind::llama3, 8};
  int kept = 0, stretched = 0, between = 0;
  for (std::int64_t i = 0; i < 64; ++i) {
    // apply_scaling of meta-llama/llama-models, models/llama3/reference_impl/model.py
    const double freq = std::pow(500000.0, -static_cast<double>(i) / 64), wavelen = 2 * 3.14159265358979323846 / freq;
    double expected = freq;
    if (wavelen > 8192.0 / 1) {
      expected = freq / 8;
      ++stretched;
    } else if (wavelen < 8192.0 / 4) {
      ++kept;
    } else {
      const double smooth = (8192.0 / wavelen - 1) / (4.0 - 1);
      expected = (1 - smooth) * freq / 8 + smooth * freq;
      ++between;
    }
    INFO(i);
    CHECK(angle(kernels, scaled, 1, i) == Approx(expected).epsilon(1e-13));
  }
  CHECK(kept > 20);
  CHECK(stretched > 20);
  CHECK(between > 3);
}

TEST_CASE("yarn keeps fast pairs, stretches slow ones, goes linearly between them and lengthens heads") {
  Kernels kernels;
  const AttentionDims dims{1, 1, 2, 64};
  const double base = 10000, factor = 16;
  const Rotary scaled{dims, base, false, RopeScalingKind::yarn, factor, RotaryPart::whole, RotaryHeads::both, 4096};
  // find_correction_range and linear_ramp_mask of jquesnelle/yarn, scaled_rope/LlamaYaRNScaledRotaryEmbedding.py: with 64 dimensions,
  // 4096 positions and base 10000, 64 ln(4096 / (32 2 pi)) / (2 ln 10000) = 10.47 and 64 ln(4096 / (2 pi)) / (2 ln 10000) = 22.51.
  const double low = 10, high = 23;
  int kept = 0, stretched = 0;
  for (std::int64_t i = 0; i < 32; ++i) {
    const double plain = std::pow(base, -2.0 * static_cast<double>(i) / 64);
    double ramp = (static_cast<double>(i) - low) / (high - low);
    if (ramp <= 0) ramp = 0, ++kept;
    if (ramp >= 1) ramp = 1, ++stretched;
    INFO(i);
    CHECK(angle(kernels, scaled, 1, i) == Approx(plain / factor * ramp + plain * (1 - ramp)).epsilon(1e-13));
  }
  CHECK(kept == 11);
  CHECK(stretched == 9);
  // What was (1, 0) is as long as get_mscale says, 0.1 ln 16 + 1, and so is a gradient's way back.
  Values x(static_cast<std::size_t>(2 * dims.qkv_width()), 0.0);
  x[static_cast<std::size_t>(dims.qkv_width())] = 1;
  const Values y = kernels.run(scaled, {real(x)}, {real(x)})[0];
  const auto at = static_cast<std::size_t>(dims.qkv_width());
  CHECK(std::hypot(y[at], y[at + 32]) == Approx(1.2772588722239781).epsilon(1e-13));
  Rotary back = scaled;
  back.inverse = true;
  const Values dy = random_values(2 * dims.qkv_width(), 8), v = random_values(2 * dims.qkv_width(), 9);
  CHECK(dot(dy, kernels.run(scaled, {real(v)}, {real(v)})[0]) ==
        Approx(dot(kernels.run(back, {real(dy)}, {real(dy)})[0], v)).epsilon(1e-12));
}

TEST_CASE("a context rank turns its rows by their positions in the sequence, and back") {
  Kernels kernels;
  const AttentionDims whole{2, 6, 12, 4, 2};
  AttentionDims local = whole;
  local.seq = 4;
  const std::int64_t width = whole.qkv_width();
  const Values x = random_values(24 * width, 7);
  const Values all = kernels.run(Rotary{whole, 100.0}, {real(x)}, {real(x)})[0];
  kernels.context.context_size = 3;
  for (std::int64_t r = 0; r < 3; ++r) {
    kernels.context.context_rank = static_cast<std::int32_t>(r);
    const std::int64_t positions[] = {2 * r, 2 * r + 1, 10 - 2 * r, 11 - 2 * r};
    Values own, expected;
    for (std::int64_t s = 0; s < 2; ++s)
      for (const std::int64_t p : positions) {
        own = concatenated(own, slice(x, (s * 12 + p) * width, width));
        expected = concatenated(expected, slice(all, (s * 12 + p) * width, width));
      }
    const Values turned = kernels.run(Rotary{local, 100.0}, {real(own)}, {real(own)})[0];
    CHECK(turned == expected);
    check_close(kernels.run(Rotary{local, 100.0, true}, {real(turned)}, {real(turned)})[0], own, 1e-15);
  }
}

TEST_CASE("grouped queries attend to their group's keys and values, and gather their gradients") {
  Kernels kernels;
  const std::int64_t tokens = 10, square = 2 * 6 * 5 * 5, context = tokens * 24;
  const Values qkv = random_values(tokens * kGrouped.qkv_width(), 9), wide = repeated(qkv);
  const Values probs = random_values(square, 10), dcontext = random_values(context, 11), dscores = random_values(square, 12);
  const auto scores = [&](const AttentionDims& d, const Values& v) {
    return kernels.one(AttentionScores{d}, {real(v), real(v)}, square);
  };
  const auto mix = [&](const AttentionDims& d, const Values& v) {
    return kernels.one(AttentionContext{d}, {real(probs), real(v)}, context);
  };
  CHECK(scores(kGrouped, qkv) == scores(kRepeated, wide));
  CHECK(mix(kGrouped, qkv) == mix(kRepeated, wide));

  const auto nothing = result(static_cast<std::int64_t>(qkv.size()));
  const auto half = kernels.run(AttentionContextBackward{kGrouped}, {real(dcontext), real(probs), real(qkv)},
                                {result(square), nothing});
  const Values dqkv = kernels.run(AttentionScoresBackward{kGrouped}, {real(dscores), real(qkv), real(qkv), real(half[1])},
                                  {real(half[1]), same_as(0)})[0];
  check_gradient([&](const Values& v) { return dot(dscores, scores(kGrouped, v)) + dot(dcontext, mix(kGrouped, v)); }, qkv,
                 dqkv);
}

}  // namespace tandem::exec::test
