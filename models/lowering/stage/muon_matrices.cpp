#include "models/lowering/stage/muon_matrices.hpp"

#include <algorithm>
#include <map>
#include <utility>

namespace tandem::lowering {
namespace {

bool alike(const MuonMatrices& a, const MuonMatrices& b) {
  return a.rows == b.rows && a.cols == b.cols && a.whole_rows == b.whole_rows && a.whole_cols == b.whole_cols;
}

/// Adds `stacked` of the parameter's matrices.
void add(std::vector<MuonMatrices>& all, const MatrixParts& of, std::int64_t stacked) {
  for (int part = 0; part < kMostParts; ++part) {
    const std::int64_t rows = of.rows(part);
    if (rows == 0) continue;
    const MuonMatrices m{stacked, rows, of.cols, rows * of.row_ranks, of.cols * of.col_ranks};
    const auto same = std::find_if(all.begin(), all.end(), [&](const MuonMatrices& o) { return alike(o, m); });
    if (same == all.end()) all.push_back(m);
    else same->count += m.count;
  }
}

/// FLOPs of an iteration of all matrices of a part, in relation to other parts.
double work_of(const MatrixParts& of, std::int64_t stacked) {
  double work = 0;
  for (int part = 0; part < kMostParts; ++part) {
    const auto m = static_cast<double>(std::min(of.rows(part), of.cols)), n = static_cast<double>(std::max(of.rows(part), of.cols));
    work += static_cast<double>(stacked) * m * m * (2 * n + m);
  }
  return work;
}

/// By the replication of what is owned: the owner whose matrices take most FLOPs.
std::map<Replication, std::int32_t> busiest(std::span<const Param> params, const Ownership& owners) {
  std::map<Replication, std::map<std::int32_t, double>> work;
  for (const OwnedPart& part : owners.parts) {
    const Param& p = params[static_cast<std::size_t>(part.param)];
    if (p.matrices.any()) work[p.replication][part.owner] += work_of(p.matrices, stacked_in(p.matrices, part.count));
  }
  std::map<Replication, std::int32_t> most;
  for (const auto& [group, of_owners] : work)
    most[group] = std::max_element(of_owners.begin(), of_owners.end(), [](auto& a, auto& b) { return a.second < b.second; })->first;
  return most;
}

}  // namespace

std::vector<MuonMatrices> muon_matrices(std::span<const Param> params, const Ownership& owners) {
  std::vector<MuonMatrices> all;
  for (const Param& p : params)
    if (p.matrices.any() && owners.parts.empty()) add(all, p.matrices, p.matrices.stacked);
  const auto most = busiest(params, owners);
  for (const OwnedPart& part : owners.parts) {
    const Param& p = params[static_cast<std::size_t>(part.param)];
    if (!p.matrices.any()) continue;
    add(all, p.matrices, part.owner == most.at(p.replication) ? stacked_in(p.matrices, part.count) : 0);
  }
  return all;
}

std::int64_t elements_of(std::span<const MuonMatrices> matrices) {
  std::int64_t n = 0;
  for (const MuonMatrices& m : matrices) n += m.count * m.rows * m.cols;
  return n;
}

}  // namespace tandem::lowering
