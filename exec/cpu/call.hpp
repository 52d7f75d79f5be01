#pragma once
// An operation's operands, as a CPU kernel sees them.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

#include "exec/backend/launch.hpp"
#include "exec/backend/piece_row.hpp"
#include "exec/cpu/step.hpp"
#include "exec/cpu/team/team.hpp"
#include "exec/cpu/widened.hpp"
#include "models/base/error.hpp"

namespace tandem::exec::cpu {

/// State shared by the calls of a queue.
struct QueueParts {
  Team& team;
  std::int64_t& gemm_flops;
};

/// Operands by position, in the order of models/ops/op.hpp, and a counter of products. Lives for one call.
class Call {
 public:
  /// `widened`: fp32 copies of the launch's 16-bit operands, if there are any.
  Call(const Launch& launch, std::span<const PieceRow> pieces, const QueueParts& parts, const Widened* widened = nullptr)
      : launch_(launch), pieces_(pieces), parts_(parts), widened_(widened) {}

  const Tensor& input(std::size_t i) const {
    require(i < launch_.in.size(), "an operation lacks an input");
    return launch_.in[i];
  }
  const Tensor& output(std::size_t i) const {
    require(i < launch_.out.size(), "an operation lacks an output");
    return launch_.out[i];
  }
  template <class T>
  const T* in(std::size_t i) const {
    return reinterpret_cast<const T*>(input(i).address);
  }
  template <class T>
  T* out(std::size_t i) const {
    return reinterpret_cast<T*>(output(i).address);
  }
  /// Rounds output `i` to its tensor's type now, for a kernel that reads it afterwards.
  void settle(std::size_t i) const {
    if (widened_ != nullptr) widened_->settle(i);
  }
  DType compute_type() const { return launch_.compute; }
  /// Storage type of an input.
  DType dtype_in(std::size_t i) const { return input(i).dtype; }

  const KernelContext& context() const { return launch_.context; }
  StepTable& table() const { return step_table(launch_.context); }
  /// The parameter pieces that the rank updates, ascending.
  std::span<const PieceRow> pieces() const { return pieces_; }
  /// The threads of the rank.
  Team& team() const { return parts_.team; }
  const QueueParts& parts() const { return parts_; }
  /// Counts one product C[m,n] += A[m,k] B[k,n]. Any thread of the team may call it.
  void count_product(std::int64_t m, std::int64_t n, std::int64_t k) {
    std::atomic_ref(parts_.gemm_flops).fetch_add(2 * m * n * k, std::memory_order_relaxed);
  }

 private:
  Launch launch_;
  std::span<const PieceRow> pieces_;
  QueueParts parts_;
  const Widened* widened_;
};

}  // namespace tandem::exec::cpu
