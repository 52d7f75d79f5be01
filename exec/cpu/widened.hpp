#pragma once
// Operands of 16 bits for kernels that compute in fp32: copies in fp32 that the kernel reads and writes, rounded when it is done.

#include <span>
#include <vector>

#include "exec/backend/launch.hpp"
#include "exec/cpu/team/team.hpp"

namespace tandem::exec::cpu {

/// Whether elements are stored in 16 bits.
inline bool is_narrow(DType t) { return t == DType::bf16 || t == DType::fp16; }

/// Whether both factors of a product, its first two inputs, are taken as they lie: bf16 that the processor multiplies.
bool takes_bf16_factors(const Launch& launch);

/// The operands of one call as a kernel sees them: fp32 copies of bf16 and fp16, all else where it lies, such factors, too. Operands at one
/// address have one copy. The copies lie in a room that belongs to the thread, grows to its largest call and is outside of any
/// plan's memory; one object of a thread has it at a time.
class Widened {
 public:
  /// `team` copies.
  Widened(const Launch& launch, Team& team);

  std::span<const Tensor> in() const { return in_.tensors; }
  std::span<const Tensor> out() const { return out_.tensors; }
  /// Rounds the copy of output `i` as its tensor will be, for a kernel that goes on with what is stored.
  void settle(std::size_t i) const;
  /// Rounds every output, to the nearest and ties to even, into its tensor.
  void put() const;

 private:
  struct Copy {
    Tensor narrow;
    float* wide;
    bool read, written;
  };
  struct Operands {
    std::vector<Tensor> tensors;
    std::vector<std::size_t> copies;  ///< of each operand, or kNone
  };
  /// Of operand `first` and those behind it.
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
