#pragma once
// Vectors of elements: a thread loads and stores up to 16 bytes by one instruction.

#include <cstddef>
#include <cstdint>

#include "exec/device/typed.hpp"
#include "exec/shared/narrow_pairs.hpp"

namespace tandem::exec::device {

/// Numbers in a thread's registers. Loops over them are unrolled.
template <class A, int N>
struct Wide {
  A v[N];

  TANDEM_HD A& operator[](int i) { return v[i]; }
  TANDEM_HD A operator[](int i) const { return v[i]; }
};

/// A number of elements, as a type.
template <int N>
struct Lanes {
  static constexpr int n = N;
};

template <class A, int N>
TANDEM_HD inline Wide<A, N> zeros() {
  Wide<A, N> all;
  TANDEM_UNROLL
  for (int l = 0; l < N; ++l) all[l] = A{0};
  return all;
}

template <class A, int N>
TANDEM_HD inline Wide<A, N> operator+(Wide<A, N> a, const Wide<A, N>& b) {
  TANDEM_UNROLL
  for (int l = 0; l < N; ++l) a[l] += b[l];
  return a;
}

/// N elements of two, four or eight bytes, as stored in memory.
template <class T, int N>
struct alignas(N * sizeof(T) < 16 ? N * sizeof(T) : 16) Cells {
  T v[N];
};
/// 16-bit elements in 32-bit words, so that a copy takes few instructions.
template <int N>
struct alignas(2 * N < 16 ? 2 * N : 16) Cells<std::uint16_t, N> {
  static_assert(N % 2 == 0);
  std::uint32_t v[N / 2];
};
template <>
struct Cells<std::uint16_t, 1> {
  std::uint16_t v;
};

template <class T, int N>
TANDEM_HD inline Cells<T, N> load_cells(const Typed& t, std::int64_t i) {
  return *reinterpret_cast<const Cells<T, N>*>(as<const T>(t) + i);
}
template <class T, int N>
TANDEM_HD inline void store_cells(const Typed& t, std::int64_t i, const Cells<T, N>& cells) {
#ifdef __CUDA_ARCH__
  if constexpr (sizeof(cells) % 16 == 0) {  // the compiler may split such a store
    uint4 words[sizeof(cells) / 16];
    memcpy(words, &cells, sizeof(cells));
    TANDEM_UNROLL
    for (int w = 0; w < static_cast<int>(sizeof(cells) / 16); ++w)
      asm volatile("st.v4.b32 [%0], {%1, %2, %3, %4};" ::"l"(reinterpret_cast<uint4*>(as<T>(t) + i) + w), "r"(words[w].x),
                   "r"(words[w].y), "r"(words[w].z), "r"(words[w].w)
                   : "memory");
    return;
  }
#endif
  *reinterpret_cast<Cells<T, N>*>(as<T>(t) + i) = cells;
}

template <class A, class T, int N>
TANDEM_HD inline Wide<A, N> numbers_of(const Cells<T, N>& cells) {
  Wide<A, N> all;
  TANDEM_UNROLL
  for (int l = 0; l < N; ++l) all[l] = static_cast<A>(cells.v[l]);
  return all;
}
template <class T, class A, int N>
TANDEM_HD inline Cells<T, N> cells_of(const Wide<A, N>& numbers) {
  Cells<T, N> all;
  TANDEM_UNROLL
  for (int l = 0; l < N; ++l) all.v[l] = static_cast<T>(numbers[l]);
  return all;
}

/// `Kind`: Bf16Pairs or Fp16Pairs.
template <class Kind, class A, int N>
TANDEM_HD inline Wide<A, N> numbers_of_pairs(const Cells<std::uint16_t, N>& cells) {
  Wide<A, N> all;
  if constexpr (N == 1) {
    all[0] = static_cast<A>(Kind::low(cells.v));
  } else {
    TANDEM_UNROLL
    for (int l = 0; l < N / 2; ++l) {
      all[2 * l] = static_cast<A>(Kind::low(cells.v[l]));
      all[2 * l + 1] = static_cast<A>(Kind::high(cells.v[l]));
    }
  }
  return all;
}
template <class Kind, class A, int N>
TANDEM_HD inline Cells<std::uint16_t, N> pairs_of(const Wide<A, N>& numbers) {
  Cells<std::uint16_t, N> all;
  if constexpr (N == 1) {
    all.v = static_cast<std::uint16_t>(Kind::pair(static_cast<float>(numbers[0]), 0));
  } else {
    TANDEM_UNROLL
    for (int l = 0; l < N / 2; ++l)
      all.v[l] = Kind::pair(static_cast<float>(numbers[2 * l]), static_cast<float>(numbers[2 * l + 1]));
  }
  return all;
}

/// Loads elements [i, i + N) as A. If N > 1, their address must be a multiple of N * element size, at most 16 bytes.
template <class A, int N>
TANDEM_HD inline Wide<A, N> load_wide(const Typed& t, std::int64_t i) {
  switch (t.type) {
    case DType::fp64: return numbers_of<A>(load_cells<double, N>(t, i));
    case DType::bf16: return numbers_of_pairs<Bf16Pairs, A, N>(load_cells<std::uint16_t, N>(t, i));
    case DType::fp16: return numbers_of_pairs<Fp16Pairs, A, N>(load_cells<std::uint16_t, N>(t, i));
    default: return numbers_of<A>(load_cells<float, N>(t, i));
  }
}
/// Stores N numbers, rounded to nearest.
template <class A, int N>
TANDEM_HD inline void store_wide(const Typed& t, std::int64_t i, const Wide<A, N>& numbers) {
  switch (t.type) {
    case DType::fp64: return store_cells(t, i, cells_of<double>(numbers));
    case DType::bf16: return store_cells(t, i, pairs_of<Bf16Pairs>(numbers));
    case DType::fp16: return store_cells(t, i, pairs_of<Fp16Pairs>(numbers));
    default: store_cells(t, i, cells_of<float>(numbers));
  }
}
/// The numbers after rounding to `type`, as if stored and loaded.
template <class A, int N>
TANDEM_HD inline Wide<A, N> as_stored(DType type, const Wide<A, N>& numbers) {
  switch (type) {
    case DType::fp64: return numbers_of<A>(cells_of<double>(numbers));
    case DType::bf16: return numbers_of_pairs<Bf16Pairs, A, N>(pairs_of<Bf16Pairs>(numbers));
    case DType::fp16: return numbers_of_pairs<Fp16Pairs, A, N>(pairs_of<Fp16Pairs>(numbers));
    default: return numbers_of<A>(cells_of<float>(numbers));
  }
}

/// How a form (typed.hpp) holds elements between memory and arithmetic: unconverted if their type is known at compile time.
template <class S>
struct Access;

template <class A>
struct Access<AnyType<A>> {
  static constexpr int kLanes = 16 / sizeof(A);
  template <int N>
  using Raw = Wide<A, N>;
  template <int N>
  static TANDEM_HD Raw<N> load(const Typed& t, std::int64_t i) {
    return load_wide<A, N>(t, i);
  }
  template <int N>
  static TANDEM_HD void store(const Typed& t, std::int64_t i, const Raw<N>& raw) {
    store_wide(t, i, raw);
  }
  template <int N>
  static TANDEM_HD Wide<A, N> numbers(const Raw<N>& raw) {
    return raw;
  }
  /// Rounds to the type of the destination.
  template <int N>
  static TANDEM_HD Raw<N> raw(const Typed& to, const Wide<A, N>& numbers) {
    return as_stored(to.type, numbers);
  }
};

template <>
struct Access<OnlyFloats> {
  static constexpr int kLanes = 4;
  template <int N>
  using Raw = Cells<float, N>;
  template <int N>
  static TANDEM_HD Raw<N> load(const Typed& t, std::int64_t i) {
    return load_cells<float, N>(t, i);
  }
  template <int N>
  static TANDEM_HD void store(const Typed& t, std::int64_t i, const Raw<N>& raw) {
    store_cells(t, i, raw);
  }
  template <int N>
  static TANDEM_HD Wide<float, N> numbers(const Raw<N>& raw) {
    return numbers_of<float>(raw);
  }
  template <int N>
  static TANDEM_HD Raw<N> raw(const Typed&, const Wide<float, N>& numbers) {
    return cells_of<float>(numbers);
  }
};

template <>
struct Access<OnlyBf16> {
  static constexpr int kLanes = 8;
  template <int N>
  using Raw = Cells<std::uint16_t, N>;
  template <int N>
  static TANDEM_HD Raw<N> load(const Typed& t, std::int64_t i) {
    return load_cells<std::uint16_t, N>(t, i);
  }
  template <int N>
  static TANDEM_HD void store(const Typed& t, std::int64_t i, const Raw<N>& raw) {
    store_cells(t, i, raw);
  }
  template <int N>
  static TANDEM_HD Wide<float, N> numbers(const Raw<N>& raw) {
    return numbers_of_pairs<Bf16Pairs, float, N>(raw);
  }
  template <int N>
  static TANDEM_HD Raw<N> raw(const Typed&, const Wide<float, N>& numbers) {
    return pairs_of<Bf16Pairs>(numbers);
  }
};

template <class S>
inline constexpr int kLanes = Access<S>::kLanes;

constexpr int lanes_of(Form form) { return form == Form::bf16 ? 8 : form == Form::doubles ? 2 : 4; }

template <class S, int N>
TANDEM_HD inline Wide<typename S::Number, N> get(const Typed& t, std::int64_t i) {
  return Access<S>::template numbers<N>(Access<S>::template load<N>(t, i));
}
template <class S, class A, int N>
TANDEM_HD inline void put(const Typed& t, std::int64_t i, const Wide<A, N>& numbers) {
  Access<S>::template store<N>(t, i, Access<S>::template raw<N>(t, numbers));
}

/// True if an operand's elements can be accessed `lanes` at a time,
/// at multiples of `lanes`. A missing operand counts as aligned.
TANDEM_HD inline bool is_aligned(const Typed& t, int lanes) {
  const std::int64_t bytes = lanes * (bits(t.type) / 8);
  return reinterpret_cast<std::uintptr_t>(t.address) % static_cast<std::uintptr_t>(bytes < 16 ? bytes : 16) == 0;
}
template <class... Operands>
TANDEM_HD inline bool are_aligned(int lanes, const Operands&... operands) {
  return (is_aligned(operands, lanes) && ...);
}

/// Elements [first, first + n) of an operand: single ones at both ends, and 16-byte aligned pieces of N between them.
template <int N>
struct Span {
  std::int64_t first, head, pieces, tail;

  TANDEM_HD Span(std::int64_t begin, std::int64_t n, bool may)
      : first(begin), head(may ? (N - begin % N) % N : 0), pieces(may && n > head ? (n - head) / N : 0) {
    if (pieces == 0) head = 0;
    tail = n - head - pieces * N;
  }
  TANDEM_HD std::int64_t piece(std::int64_t k) const { return first + head + k * N; }
  TANDEM_HD std::int64_t singles() const { return head + tail; }
  TANDEM_HD std::int64_t single(std::int64_t k) const { return k < head ? first + k : first + pieces * N + k; }
};

}  // namespace tandem::exec::device
