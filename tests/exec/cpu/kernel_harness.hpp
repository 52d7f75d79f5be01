#pragma once
// Runs single operations of the CPU backend on vectors of doubles, and differentiates functions numerically.

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <memory>
#include <random>
#include <vector>

#include "exec/shared/nf4.hpp"
#include "models/base/error.hpp"
#include "models/base/narrow.hpp"
#include "tests/backends.hpp"
#include "tests/catch.hpp"

namespace tandem::exec::test {

using Values = std::vector<double>;

/// Values and the type they are stored in for the call: the compute type, or one that op.hpp fixes.
struct Operand {
  enum class Kind { compute, fp64, fp32, bf16, fp16, nf4, int32, int64 };
  Values values;
  Kind kind = Kind::compute;
  int as_output = -1;  ///< outputs only: the earlier one that is the same memory
};

inline Operand real(Values v) { return {std::move(v), Operand::Kind::compute}; }
inline Operand fp64(Values v) { return {std::move(v), Operand::Kind::fp64}; }
/// In a type of its own, whatever the kernel computes in.
inline Operand in_type(Operand::Kind kind, Values v) { return {std::move(v), kind}; }
inline Operand integers(const std::vector<int>& v) { return {Values(v.begin(), v.end()), Operand::Kind::int32}; }
/// Words of exact sums, which doubles hold as long as they are carried.
inline Operand words(Values v) { return {std::move(v), Operand::Kind::int64}; }
/// The same tensor as output `i`.
inline Operand same_as(int i) { return {{}, Operand::Kind::compute, i}; }
/// An output to be written whole: NaN shows what was not.
inline Values unwritten(std::int64_t n) {
  return Values(static_cast<std::size_t>(n), std::numeric_limits<double>::quiet_NaN());
}
inline Operand result(std::int64_t n) { return real(unwritten(n)); }
/// The same for integers and for words of exact sums.
inline constexpr int kUnwritten = -77777;
inline Operand integer_result(std::int64_t n) { return {Values(static_cast<std::size_t>(n), kUnwritten), Operand::Kind::int32}; }
inline Operand word_result(std::int64_t sums) {
  return words(Values(static_cast<std::size_t>(sums * kExactWords), kUnwritten));
}

/// One backend, its context and the calls on it.
class Kernels {
 public:
  explicit Kernels(DType dtype = DType::fp64) : dtype_(dtype) {
    context.seed = 20261120;
    context.table = table_address(*backend);
  }

  /// Outputs after `op`; those given with values are updated in place.
  std::vector<Values> run(const Op& op, const std::vector<Operand>& inputs, std::vector<Operand> outputs) {
    std::vector<std::unique_ptr<Memory>> memory;
    std::vector<Tensor> in, out;
    std::vector<std::size_t> places;  // of outputs, among `memory`
    const auto place = [&](const Operand& o) {
      memory.push_back(store(o));
      return Tensor{memory.back()->address(), type(o), static_cast<std::int64_t>(o.values.size())};
    };
    for (const Operand& o : inputs) in.push_back(place(o));
    for (Operand& o : outputs) {
      const auto earlier = static_cast<std::size_t>(o.as_output);
      out.push_back(o.as_output < 0 ? place(o) : out[earlier]);
      places.push_back(o.as_output < 0 ? memory.size() - 1 : places[earlier]);
      if (o.as_output >= 0) o.values = outputs[earlier].values;
    }
    perform(op, in, out);
    std::vector<Values> results;
    for (std::size_t i = 0; i < outputs.size(); ++i) results.push_back(load(outputs[i], *memory[places[i]]));
    return results;
  }
  /// The only output of `op`, of n elements.
  Values one(const Op& op, const std::vector<Operand>& inputs, std::int64_t n) {
    return run(op, inputs, {result(n)}).front();
  }

  /// The context with a table that the host may follow, for references that tests compute themselves.
  KernelContext on_host() {
    KernelContext c = context;
    c.table = &table;
    return c;
  }

  /// From here on this backend.
  void use(std::unique_ptr<Backend> other) {
    backend = std::move(other);
    context.table = table_address(*backend);
  }

  std::unique_ptr<Backend> backend = tests::under_test(tests::kernels_under_test());
  KernelContext context;
  StepTable table;                     ///< written before an operation and read behind it
  std::span<const ParamPiece> pieces;  ///< what the rank updates
  std::int64_t share = 0;              ///< the rank's place among those that cut parameters

 private:
  void perform(const Op& op, std::span<const Tensor> in, std::span<const Tensor> out) {
    write_value(backend->step_table(), 0, table);
    backend->load_pieces(piece_rows(pieces, [this](const Param& p) { return ShareMap(p, share, 0, 1); }));
    Queue& queue = backend->queue(Stream::compute);
    queue.run({op, dtype_, in, out, context});
    queue.finish();
    table = read_value<StepTable>(backend->step_table(), 0);
  }

  template <class T>
  static void write(const Values& values, Memory& to) {
    const std::vector<T> converted(values.begin(), values.end());
    to.write(0, std::as_bytes(std::span(converted)));
  }
  template <class T>
  static Values read(std::size_t n, const Memory& from) {
    std::vector<T> stored(n);
    from.read(0, std::as_writable_bytes(std::span(stored)));
    return Values(stored.begin(), stored.end());
  }
  DType type(const Operand& o) const {
    switch (o.kind) {
      case Operand::Kind::compute: return dtype_;
      case Operand::Kind::fp64: return DType::fp64;
      case Operand::Kind::fp32: return DType::fp32;
      case Operand::Kind::bf16: return DType::bf16;
      case Operand::Kind::fp16: return DType::fp16;
      case Operand::Kind::nf4: return DType::nf4;
      case Operand::Kind::int32: return DType::int32;
      case Operand::Kind::int64: return DType::int64;
    }
    return dtype_;
  }
  /// Whole blocks.
  static void quantized(const Values& values, Memory& to) {
    const std::vector<float> numbers(values.begin(), values.end());
    for (std::size_t at = 0; at < numbers.size(); at += Nf4Block::kElements)
      write_value(to, at / Nf4Block::kElements * sizeof(Nf4Block), nf4_block(&numbers[at]));
  }
  std::unique_ptr<Memory> store(const Operand& o) {
    auto memory = backend->allocate(o.values.size() * 8);
    const auto rounded = [&](auto round) {
      Values bits;
      for (const double v : o.values) bits.push_back(round(static_cast<float>(v)));
      write<std::uint16_t>(bits, *memory);
    };
    switch (type(o)) {
      case DType::int32: write<std::int32_t>(o.values, *memory); break;
      case DType::int64: write<std::int64_t>(o.values, *memory); break;
      case DType::fp32: write<float>(o.values, *memory); break;
      case DType::bf16: rounded([](float v) { return to_bf16(v); }); break;
      case DType::fp16: rounded([](float v) { return to_fp16(v); }); break;
      case DType::nf4: quantized(o.values, *memory); break;
      default: write<double>(o.values, *memory);
    }
    return memory;
  }
  Values load(const Operand& o, const Memory& from) const {
    const std::size_t n = o.values.size();
    const auto widened = [&](auto widen) {
      Values values = read<std::uint16_t>(n, from);
      for (double& v : values) v = static_cast<double>(widen(static_cast<std::uint16_t>(v)));
      return values;
    };
    switch (type(o)) {
      case DType::int32: return read<std::int32_t>(n, from);
      case DType::int64: return read<std::int64_t>(n, from);
      case DType::fp32: return read<float>(n, from);
      case DType::bf16: return widened([](std::uint16_t v) { return from_bf16(v); });
      case DType::fp16: return widened([](std::uint16_t v) { return from_fp16(v); });
      default: return read<double>(n, from);
    }
  }

  DType dtype_;
};

/// n values in [-1, 1), always the same for a seed and exact in float.
inline Values random_values(std::int64_t n, unsigned seed) {
  std::mt19937 generator(seed);
  Values v(static_cast<std::size_t>(n));
  for (double& x : v) x = static_cast<double>(generator() >> 8) * 0x1p-23 - 1;
  return v;
}

/// n integers in [0, bound).
inline std::vector<int> random_integers(std::int64_t n, int bound, unsigned seed) {
  std::mt19937 generator(seed);
  std::vector<int> v(static_cast<std::size_t>(n));
  for (int& x : v) x = static_cast<int>(generator() % static_cast<unsigned>(bound));
  return v;
}

inline double dot(const Values& a, const Values& b) {
  REQUIRE(a.size() == b.size());
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

inline double largest(const Values& v) {
  double m = 0;
  for (const double x : v) m = std::max(m, std::abs(x));
  return m;
}

/// Integers that an operation has written.
inline std::vector<int> as_integers(const Values& v) { return std::vector<int>(v.begin(), v.end()); }

inline Values concatenated(Values a, const Values& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}
inline Values slice(const Values& v, std::int64_t begin, std::int64_t count) {
  return Values(v.begin() + begin, v.begin() + begin + count);
}

/// Every element within `tolerance` of the largest expected magnitude. A NaN never is.
inline void check_close(const Values& actual, const Values& expected, double tolerance) {
  REQUIRE(actual.size() == expected.size());
  double worst = 0;
  for (std::size_t i = 0; i < actual.size(); ++i) {
    const double difference = std::abs(actual[i] - expected[i]);
    worst = difference <= worst ? worst : difference;
  }
  CHECK(worst <= tolerance * largest(expected));
}

using Function = std::function<double(const Values&)>;

/// Slope of f at x along v by the five-point rule: error h^4 f'''''/30, and about 1e-16 |f| / h from rounding. At
/// h = 1e-3 both stay near 1e-13 for the functions tested here.
inline double slope(const Function& f, const Values& x, const Values& v) {
  constexpr double h = 1e-3;
  const auto at = [&](double t) {
    Values moved = x;
    for (std::size_t i = 0; i < x.size(); ++i) moved[i] += t * v[i];
    return f(moved);
  };
  return (at(-2 * h) - 8 * at(-h) + 8 * at(h) - at(2 * h)) / (12 * h);
}

/// A hundred times the error of `slope`, relative to the largest entry of a gradient.
inline constexpr double kGradientTolerance = 1e-10;

/// Compares `gradient` with slopes along every axis.
inline void check_gradient(const Function& f, const Values& x, const Values& gradient) {
  Values numeric;
  for (std::size_t i = 0; i < x.size(); ++i) {
    Values axis(x.size(), 0.0);
    axis[i] = 1;
    numeric.push_back(slope(f, x, axis));
  }
  check_close(gradient, numeric, kGradientTolerance);
}

/// Compares `gradient` with the slope along a few random directions: for sizes where every axis would take too long.
inline void check_directions(const Function& f, const Values& x, const Values& gradient) {
  for (unsigned seed = 900; seed < 903; ++seed) {
    Values v = random_values(static_cast<std::int64_t>(x.size()), seed);
    const double norm = std::sqrt(dot(v, v));
    for (double& e : v) e /= norm;
    CHECK(std::abs(dot(gradient, v) - slope(f, x, v)) <= kGradientTolerance * std::sqrt(dot(gradient, gradient)));
  }
}

}  // namespace tandem::exec::test
