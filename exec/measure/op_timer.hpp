#pragma once
// Times single operations under the conditions of a training step: operands are in some cache, not all in the nearest one.

#include <cstddef>
#include <memory>
#include <vector>

#include "exec/backend/backend.hpp"
#include "exec/measure/op_operands.hpp"

namespace tandem::exec {

/// Not thread-safe: use one per thread.
class OpTimer {
 public:
  /// Calls cycle through one pool of inputs and one of outputs, each of `pool_bytes` bytes or as large as one call's operands. By
  /// default both fit into a core's second-level cache (1 or 2 MiB today). There a step finds what the operation before wrote.
  /// Smaller pools would fit into the first-level cache.
  explicit OpTimer(DType dtype, std::size_t pool_bytes = kPoolBytes);
  static constexpr std::size_t kPoolBytes = 512 << 10;

  /// Median processor seconds of one call. Measures at least three groups of calls, about `budget_s` seconds in all.
  double seconds(const Op& op, double budget_s);

 private:
  struct CallOperands {
    std::vector<Tensor> inputs, outputs;
  };
  /// Memory that calls cycle through, so that operands are not where the last call left them.
  class Pool {
   public:
    std::byte* next(std::size_t bytes);
    /// Grows to at least `bytes`. New memory is filled with values between 1/2 and 1.
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
