#include "sim/cost/matmul_time.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "models/base/error.hpp"

namespace tandem::sim {
namespace {

double up(std::int64_t n, std::int64_t tile) { return static_cast<double>((n + tile - 1) / tile * tile); }

double ceiling(const MatMulFit& fit, const MatMulEngine& e) {
  if (e.blocks) return fit.block_ceiling;
  return e.element_bits <= 4 ? fit.fp4_ceiling : e.element_bits <= 8 ? fit.narrow_ceiling : fit.ceiling;
}

double rounded_seconds(const Gemm& g, const MatMulFit& fit, const MatMulEngine& e) {
  const double flops = 2.0 * static_cast<double>(g.batch) * up(g.m, fit.round_m) * up(g.n, fit.round_n) * up(g.k, fit.round_k);
  return flops / (e.peak * ceiling(fit, e));
}

/// Number of waves of `tiles` on the compute units, at least one.
double waves(double tiles, const MatMulFit& fit, const MatMulEngine& e) {
  const double w = tiles / static_cast<double>(e.units);
  return std::max(1.0, w + fit.wave_softening * (std::ceil(w) - w));
}

/// Seconds of adding partial sums if k is cut: they are written in fp32 and read again.
double split_seconds(const Gemm& g, std::int64_t parts, const MatMulEngine& e) {
  if (parts == 1) return 0;
  const double sums = static_cast<double>(g.batch) * static_cast<double>(g.m) * static_cast<double>(g.n);
  return 4.0 * sums * static_cast<double>(parts + 1) / e.memory_rate;
}

double tile_seconds(const Gemm& g, const Tile& t, std::int64_t parts, const MatMulFit& fit, const MatMulEngine& e) {
  const double tiles = static_cast<double>(g.batch) * up(g.m, t.rows) / static_cast<double>(t.rows) * up(g.n, t.cols) /
                       static_cast<double>(t.cols) * static_cast<double>(parts);
  const double k = static_cast<double>(g.k) / static_cast<double>(parts) + fit.fill_k;
  const double unit_rate = e.peak / static_cast<double>(e.units) * ceiling(fit, e) * t.rate;
  const double wave = 2.0 * static_cast<double>(t.rows) * static_cast<double>(t.cols) * k / unit_rate;
  return waves(tiles, fit, e) * wave + split_seconds(g, parts, e);
}

/// Seconds with the best tile, which the library's heuristics should choose. k is cut only while compute units are idle.
double tiled_seconds(const Gemm& g, const MatMulFit& fit, const MatMulEngine& e) {
  double best = std::numeric_limits<double>::infinity();
  for (const Tile& t : fit.tiles)
    for (std::int64_t parts : fit.split_k) {
      const std::int64_t whole = g.batch * ((g.m + t.rows - 1) / t.rows) * ((g.n + t.cols - 1) / t.cols);
      if (parts > 1 && (parts - 1) * whole >= e.units) continue;
      best = std::min(best, tile_seconds(g, t, parts, fit, e));
    }
  return best;
}

bool misaligned(std::int64_t elements, const MatMulFit& fit, const MatMulEngine& e) {
  return elements * e.element_bits % (8 * fit.alignment_bytes) != 0;
}

/// Whether rows in memory miss the alignment. Rows of the result have n elements, of the first operand k (transposed: m), of the
/// second n or k.
bool unaligned(const Gemm& g, const MatMulFit& fit, const MatMulEngine& e) {
  return e.matrix_engine && fit.alignment_bytes > 0 && (misaligned(g.n, fit, e) || misaligned(g.trans_a ? g.m : g.k, fit, e));
}

/// The library's kernels for the vector units have tiles like the others. Filling a tile's pipeline takes the same time, which is a
/// smaller part of k at their lower rate.
MatMulFit without_matrix_engine(MatMulFit fit, const MatMulEngine& e) {
  fit.fill_k *= e.vector_rate / e.peak;
  return fit;
}
/// The fit for types that only the vector units have: `vector_ceiling` of their own rate.
MatMulFit on_vector_units(MatMulFit fit, const MatMulEngine& e) {
  fit.ceiling = *fit.vector_ceiling;
  if (e.matrix_rate > 0) fit.fill_k *= e.peak / e.matrix_rate;
  return fit;
}
MatMulEngine vector_engine(MatMulEngine e) {
  e.peak = e.vector_rate;
  e.matrix_engine = false;
  return e;
}

double aligned_seconds(const Gemm& g, const MatMulFit& fit, const MatMulEngine& e) {
  switch (fit.model) {
    case MatMulFit::Model::flat: return g.flops() / (e.peak * ceiling(fit, e));
    case MatMulFit::Model::rounded: return rounded_seconds(g, fit, e);
    case MatMulFit::Model::tiles: return tiled_seconds(g, fit, e);
  }
  throw ContractError("unknown model of matrix products");
}

}  // namespace

double matmul_seconds(const Gemm& g, const MatMulFit& fit, const MatMulEngine& e) {
  if (!e.matrix_engine && fit.vector_ceiling) return aligned_seconds(g, on_vector_units(fit, e), e);
  if (!unaligned(g, fit, e)) return aligned_seconds(g, fit, e);
  if (g.batch > 1) return aligned_seconds(g, without_matrix_engine(fit, e), vector_engine(e));
  return aligned_seconds(g, fit, e) / fit.unaligned_share;
}

}  // namespace tandem::sim
