#pragma once
// One operation's operands as a kernel sees them.

#include <cstddef>
#include <cstdint>
#include <span>

#include "exec/cpu/backend.hpp"
#include "models/base/error.hpp"

namespace tandem::exec::cpu {

/// Operands by position, as models/ops/op.hpp lists them, and where products are counted. Lives for one call.
class Call {
 public:
  Call(std::span<const std::byte* const> inputs, std::span<std::byte* const> outputs, const KernelContext& context,
       std::int64_t& gemm_flops)
      : inputs_(inputs), outputs_(outputs), context_(context), gemm_flops_(gemm_flops) {}

  template <class T>
  const T* in(std::size_t i) const {
    require(i < inputs_.size(), "an operation lacks an input");
    return reinterpret_cast<const T*>(inputs_[i]);
  }
  template <class T>
  T* out(std::size_t i) const {
    require(i < outputs_.size(), "an operation lacks an output");
    return reinterpret_cast<T*>(outputs_[i]);
  }

  const KernelContext& context() const { return context_; }
  Scalars& scalars() const {
    require(context_.scalars != nullptr, "an operation that needs the scalar table got none");
    return *context_.scalars;
  }
  /// Books one product C[m,n] += A[m,k] B[k,n] as it is called.
  void count_product(std::int64_t m, std::int64_t n, std::int64_t k) { gemm_flops_ += 2 * m * n * k; }

 private:
  std::span<const std::byte* const> inputs_;
  std::span<std::byte* const> outputs_;
  const KernelContext& context_;
  std::int64_t& gemm_flops_;
};

}  // namespace tandem::exec::cpu
