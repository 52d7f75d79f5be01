#pragma once
// Times single computations the way a training step meets them: operands somewhere in the caches, not all in the nearest.

#include <cstddef>
#include <memory>
#include <vector>

#include "exec/backend/backend.hpp"
#include "exec/measure/op_operands.hpp"

namespace tandem::exec {

/// Not thread-safe: one a thread.
class OpTimer {
 public:
  /// Calls walk through two pools, of what is read and what is written, of `pool_bytes` each, or one operation's operands
  /// where these are larger. The default keeps both within a core's second cache (one or two MiB today), where a step finds
  /// what the operation before has just written; with less everything is in the first.
  explicit OpTimer(DType dtype, std::size_t pool_bytes = kPoolBytes);
  static constexpr std::size_t kPoolBytes = 512 << 10;

  /// Median processor seconds of one call, over groups of calls that take about `budget_s` together, at least three.
  double seconds(const Op& op, double budget_s);

 private:
  struct CallOperands {
    std::vector<Tensor> inputs, outputs;
  };
  /// Memory that calls move through, so that a call does not find its operands where the last one left them.
  class Pool {
   public:
    std::byte* next(std::size_t bytes);
    /// Grows to hold `bytes` at once; new memory is filled with values between 1/2 and 1.
    void reserve(std::size_t bytes, DType dtype);
    std::size_t size() const { return memory_.size(); }

   private:
    std::vector<std::byte> memory_;
    std::size_t at_ = 0;
  };

  void prepare(const Op& op);
  void lay_out(const OperandSizes& sizes);
  CallOperands operands(const OperandSizes& sizes);
  double time_group(const Op& op, int calls);

  DType dtype_;
  std::size_t pool_bytes_;
  std::unique_ptr<Backend> backend_;
  Pool reading_, writing_;
  std::vector<std::vector<std::int32_t>> integers_;  ///< by input
  std::vector<CallOperands> sets_;
  std::size_t set_ = 0;
  PieceRow piece_;
  KernelContext context_;
};

}  // namespace tandem::exec
