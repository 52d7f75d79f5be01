#pragma once
// Converts parts of tensors of any type to a kernel's type and back. For optimizers, whose weights, gradients, moments and master
// weights have different types.

#include <algorithm>
#include <type_traits>
#include <vector>

#include "exec/backend/piece_row.hpp"
#include "exec/cpu/narrow_values.hpp"
#include "exec/data/random.hpp"
#include "models/base/error.hpp"

namespace tandem::exec::cpu {

template <class T>
inline constexpr DType kTypeOf = std::is_same_v<T, double> ? DType::fp64 : DType::fp32;

/// `count` elements of a tensor from index `at` on.
struct Elements {
  const Tensor& tensor;
  std::int64_t at, count;
};

/// Random bits that round a parameter's elements in one step, by index in the whole parameter; so equal in every layout.
class Rounding {
 public:
  enum class Of : std::uint8_t { weights, exp_avg, exp_avg_sq };
  Rounding(std::uint64_t seed, std::uint64_t step, const PieceRow& piece, Of what)
      : stream_(RandomStream::rounding(seed, step, piece.init_id, static_cast<std::uint32_t>(what))), piece_(piece) {}

  /// Writes the bits of elements [first, first + out.size()) of the piece.
  void fill(std::int64_t first, std::span<std::uint32_t> out) const {
    const auto n = static_cast<std::int64_t>(out.size());
    for (std::int64_t done = 0, count = 0; done < n; done += count) {
      const std::int64_t local = piece_.first + first + done;
      count = std::min(n - done, piece_.map.run(local));
      stream_.fill_bits(static_cast<std::uint64_t>(piece_.map.full_index(local)),
                        out.subspan(static_cast<std::size_t>(done), static_cast<std::size_t>(count)));
    }
  }

 private:
  RandomStream stream_;
  const PieceRow& piece_;
};

/// An operand of a kernel, converted to T part by part.
template <class T>
class Staged {
 public:
  /// The elements themselves if they are stored as T, else a copy that is valid until the next call.
  T* get(const Elements& s) {
    if (s.tensor.dtype == kTypeOf<T>) return reinterpret_cast<T*>(s.tensor.address) + s.at;
    if (copy_.size() < static_cast<std::size_t>(s.count)) copy_.resize(static_cast<std::size_t>(s.count));
    if constexpr (std::is_same_v<T, float>) widen(s.tensor, s.at, s.count, copy_.data());
    else require(false, "an operand narrower than what a kernel computes in");
    return copy_.data();
  }

 private:
  std::vector<T> copy_;
};

/// Stores results, unless `from` is the tensor's memory. Rounds to nearest, or by `random`, where `first` is the element's number.
template <class T>
void put(const T* from, const Elements& to, const Rounding* random, std::int64_t first) {
  if (to.tensor.dtype == kTypeOf<T>) {
    T* at = reinterpret_cast<T*>(to.tensor.address) + to.at;
    if (at != from) std::copy_n(from, to.count, at);
    return;
  }
  if constexpr (std::is_same_v<T, float>) {
    if (random == nullptr) return narrow(from, to.tensor, to.at, to.count);
    std::vector<std::uint32_t> bits(static_cast<std::size_t>(to.count));
    random->fill(first, bits);
    narrow(from, to.tensor, to.at, to.count, bits.data());
  } else {
    require(false, "an operand narrower than what a kernel computes in");
  }
}

/// Calls body(value), where value(i) is element at + i of the tensor as T.
template <class T, class F>
void with_values(const Tensor& tensor, std::int64_t at, F body) {
  const T* plain = reinterpret_cast<const T*>(tensor.address) + at;
  if (tensor.dtype == kTypeOf<T>) return body([plain](std::int64_t i) { return plain[i]; });
  const auto* bits = reinterpret_cast<const std::uint16_t*>(tensor.address) + at;
  if (tensor.dtype == DType::bf16) return body([bits](std::int64_t i) { return static_cast<T>(from_bf16(bits[i])); });
  require(tensor.dtype == DType::fp16, "gradients of a type that no norm is taken of");
  body([bits](std::int64_t i) { return static_cast<T>(from_fp16(bits[i])); });
}

}  // namespace tandem::exec::cpu
