#include "exec/cpu/team_product.hpp"

#include "exec/cpu/gemm/cut.hpp"
#include "exec/cpu/lanes.hpp"
#include "exec/cpu/scratch.hpp"

namespace tandem::exec::cpu {
namespace {

/// The submatrix of a factor from row `r` and column `c` on.
template <class T>
Factor<T> from(const Factor<T>& f, std::int64_t r, std::int64_t c) {
  return {f.data + (f.transposed ? c * f.stride + r : r * f.stride + c), f.stride, f.transposed};
}

template <class P>
P rows_of(P p, std::int64_t first, std::int64_t count) {
  p.a = from(p.a, first, 0);
  p.c += first * p.c_stride;
  p.m = count;
  return p;
}

template <class P>
P columns_of(P p, std::int64_t first, std::int64_t count) {
  p.b = from(p.b, 0, first);
  p.c += first;
  p.n = count;
  return p;
}

template <class P>
P terms_of(P p, std::int64_t first, std::int64_t count) {
  p.a = from(p.a, 0, first);
  p.b = from(p.b, first, 0);
  p.k = count;
  return p;
}

/// Calls body(piece, first, count) for the pieces of a length.
template <class F>
void each_piece(Team& team, std::int64_t length, std::int64_t extent, F body) {
  const std::int64_t pieces = (length + extent - 1) / extent;
  team.split(pieces, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) body(i, i * extent, std::min(extent, length - i * extent));
  });
}

/// Cuts the inner dimension. The first piece writes the result; others write to scratch memory and are added in order.
template <class T, class F>
void multiply_terms(Team& team, const Product<T, F>& p, std::int64_t extent) {
  const std::int64_t others = (p.k - 1) / extent, size = p.m * p.n;
  thread_local GrowingScratch<T> kept;
  T* const beside = kept.at_least(others * size);
  each_piece(team, p.k, extent, [&](std::int64_t piece, std::int64_t first, std::int64_t count) {
    Product<T, F> part = terms_of(p, first, count);
    if (piece > 0) part.c = beside + (piece - 1) * size, part.c_stride = p.n, part.add = false;
    multiply(part);
  });
  team.split(p.m, team.grain(p.n), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r)
      for (std::int64_t i = 0; i < others; ++i)
        each(p.n, [to = p.c + r * p.c_stride, part = beside + i * size + r * p.n](std::int64_t c) { to[c] += part[c]; });
  });
}

template <class P>
void multiply_cut(Team& team, const P& p) {
  const Cut cut = cut_of(p.m, p.n, p.k);
  if (cut.extent == 0) return multiply(p);
  switch (cut.along) {
    case CutAlong::sum: return multiply_terms(team, p, cut.extent);
    case CutAlong::rows:
      return each_piece(team, p.m, cut.extent, [&](auto, auto first, auto count) { multiply(rows_of(p, first, count)); });
    case CutAlong::columns:
      return each_piece(team, p.n, cut.extent, [&](auto, auto first, auto count) { multiply(columns_of(p, first, count)); });
  }
}

}  // namespace

void multiply(Team& team, const Product<double>& product) { multiply_cut(team, product); }
void multiply(Team& team, const Product<float>& product) { multiply_cut(team, product); }
void multiply(Team& team, const Product<float, Bf16>& product) { multiply_cut(team, product); }

}  // namespace tandem::exec::cpu
