#pragma once
// 16-bit operands of kernels that compute in fp32: fp32 copies that the kernel uses, rounded when it is done.

#include <span>
#include <vector>

#include "exec/backend/launch.hpp"
#include "exec/cpu/team/team.hpp"

namespace tandem::exec::cpu {

/// True if elements have 16 bits.
inline bool is_narrow(DType t) { return t == DType::bf16 || t == DType::fp16; }

/// True if both factors of a product (inputs 0 and 1) are bf16 and used directly, because the processor multiplies bf16.
bool takes_bf16_factors(const Launch& launch);

/// The operands of a call as a kernel sees them: fp32 copies of 16-bit operands; all others, and bf16 factors, unchanged. Operands
/// at one address share a copy. Copies lie in a thread's scratch memory, which grows to its largest call. A thread may have one
/// such object at a time.
class Widened {
 public:
  /// `team` makes the copies.
  Widened(const Launch& launch, Team& team);

  std::span<const Tensor> in() const { return in_.tensors; }
  std::span<const Tensor> out() const { return out_.tensors; }
  /// Rounds the copy of output `i` to its tensor's type, for a kernel that reads the output afterwards.
  void settle(std::size_t i) const;
  /// Rounds every output to nearest even and stores it in its tensor.
  void put() const;

 private:
  struct Copy {
    Tensor narrow;
    float* wide;
    bool read, written;
  };
  struct Operands {
    std::vector<Tensor> tensors;
    std::vector<std::size_t> copies;  ///< copy of each operand, or kNone
  };
  /// Finds the copies of operands `first` and later.
  void find_copies(std::span<const Tensor> of, std::size_t first, Operands& to);
  std::size_t copy_of(const Tensor& t);
  void place();

  void widen(const Copy& copy) const;
  void narrow(const Copy& copy) const;

  Team& team_;
  std::vector<Copy> copies_;
  Operands in_, out_;
};

}  // namespace tandem::exec::cpu
