#pragma once
// One head of an attention operand, as a factor or result of products.

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "exec/cpu/attention.hpp"
#include "exec/cpu/gemm/gemm.hpp"
#include "exec/cpu/scratch.hpp"

namespace tandem::exec::cpu {

/// A matrix [count, head_dim]: the operand itself if the head's rows are in order, else a copy.
template <class T>
class HeadMatrix {
 public:
  HeadMatrix(T* data, const HeadRows& rows, std::int64_t head_dim) : data_(data), rows_(rows), head_dim_(head_dim) {
    if (rows.order.straight()) return;
    copy_ = ScratchArray<std::remove_const_t<T>>(rows.count * head_dim);
    for (std::int64_t i = 0; i < rows.count; ++i) std::copy_n(operand(i), head_dim, copy_.data() + i * head_dim);
  }

  std::int64_t rows() const { return rows_.count; }
  std::int64_t stride() const { return rows_.order.straight() ? rows_.stride : head_dim_; }
  T* data() { return rows_.order.straight() ? operand(0) : copy_.data(); }
  T* row(std::int64_t i) { return data() + i * stride(); }
  /// The rows from `first` on, as a factor.
  Factor<std::remove_const_t<T>> factor(bool transposed = false, std::int64_t first = 0) {
    return {row(first), stride(), transposed};
  }
  /// Writes the copy back to the operand, if there is one.
  void put() const {
    if (rows_.order.straight()) return;
    for (std::int64_t i = 0; i < rows_.count; ++i) std::copy_n(copy_.data() + i * head_dim_, head_dim_, operand(i));
  }

 private:
  T* operand(std::int64_t i) const { return data_ + rows_.at(i); }

  T* data_;
  HeadRows rows_;
  std::int64_t head_dim_;
  ScratchArray<std::remove_const_t<T>> copy_;
};

}  // namespace tandem::exec::cpu
