#pragma once
// A device's kernels beside the CPU's in fp64 on the same numbers. The host emulates them unless a CUDA device is tested.

#include <cmath>
#include <functional>
#include <vector>

#include "tests/exec/cpu/attention_cases.hpp"

namespace tandem::exec::test {

/// Operands, given the kind that statistics and gradients of parameters have.
using Make = std::function<std::vector<Operand>(Operand::Kind)>;

/// Multiples of 1/128 in [-1, 1): exact in bf16, so all types compute from the same numbers.
inline Values short_values(std::int64_t n, unsigned seed) {
  Values v = random_values(n, seed);
  for (double& x : v) x = std::round(x * 127) / 128;
  return v;
}

class Beside {
 public:
  explicit Beside(DType dtype) : dtype_(dtype), device_(dtype) {
    device_.use(tests::device_kernels());
    exact_.use(make_cpu_backend());
    for (Kernels* k : {&device_, &exact_}) k->context.layer = 3, k->context.seq_length = 8;
  }
  /// Where the documents of sequences of `length` positions begin.
  void keep_apart(const std::vector<std::int32_t>& documents, std::int64_t length) {
    for (Kernels* k : {&device_, &exact_}) test::keep_apart(*k, documents, length);
  }
  /// Performs operations as tensor rank `rank` of `size` from here on.
  void on_tensor_rank(std::int32_t rank, std::int32_t size) {
    for (Kernels* k : {&device_, &exact_}) k->context.tensor_rank = rank, k->context.tensor_size = size;
  }
  /// Results within what a type's rounding allows: 1e-5 of the largest in fp32, 1e-2 in bf16, an eighth of that in fp16.
  std::vector<Values> check(const Op& op, const Make& in, const Make& out) {
    const auto actual = device_.run(op, in(Operand::Kind::fp32), out(Operand::Kind::fp32));
    const auto expected = exact_.run(op, in(Operand::Kind::compute), out(Operand::Kind::compute));
    REQUIRE(actual.size() == expected.size());
    for (std::size_t i = 0; i < actual.size(); ++i) check_close(actual[i], expected[i], bound());
    return actual;
  }

 private:
  double bound() const { return dtype_ == DType::bf16 ? 1e-2 : dtype_ == DType::fp16 ? 1.25e-3 : 1e-5; }

  DType dtype_;
  Kernels device_, exact_;
};

inline Operand zeros(Operand::Kind kind, std::int64_t n) { return in_type(kind, unwritten(n)); }

}  // namespace tandem::exec::test
