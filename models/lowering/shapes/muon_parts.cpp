#include "models/lowering/shapes/muon_parts.hpp"

#include "models/base/error.hpp"

namespace tandem::lowering {
namespace {

MatrixParts whole(const Param& p) {
  const std::int64_t stacked = p.expert_rows > 0 ? p.rows / p.expert_rows : 1;
  MatrixParts m{stacked, 1, {p.rows / stacked, 0, 0}, p.cols};
  return m;
}

std::int64_t value_rows(const Shapes& s) { return s.pair_made() - s.head_dim; }

/// Rows ordered (group, {its queries, key, value}, dim).
MatrixParts by_group(const Shapes& s, const Param& p) {
  MatrixParts m{1, s.kv_heads, {s.heads / s.kv_heads * s.head_dim, s.head_dim, value_rows(s)}, p.cols};
  require(m.periods * m.period() == p.rows, "queries, keys and values have other rows than their heads");
  return m;
}

/// Whether `p` holds the keys and values of a group that several tensor ranks hold alike.
bool shared_keys(const Param& p) { return p.repeat > 1 && p.inner == 0; }

}  // namespace

bool updated_by_muon(const RegionPlace& region, const ParamSpec& spec) {
  const bool hidden = region.kind == RegionKind::block || region.kind == RegionKind::experts || region.kind == RegionKind::mtp;
  return hidden && !region.frozen && !spec.vector() && spec.name != "recurrence_conv.weight";
}

MatrixParts muon_parts(const Shapes& s, const ParamSpec& spec, const Param& p) {
  const std::int64_t ranks = spec.expert_rows > 0 ? s.expert_tensor : s.tensor;
  MatrixParts m = whole(p);
  if (shared_keys(p)) m.runs[0] = s.head_dim, m.runs[1] = value_rows(s);
  else if (spec.name == "qkv.weight" && p.rows == s.qkv_made()) m = by_group(s, p);
  if (spec.cut == Cut::rows) m.row_ranks = shared_keys(p) ? ranks / p.repeat : ranks;
  if (spec.cut == Cut::cols) m.col_ranks = ranks;
  return m;
}

}  // namespace tandem::lowering
