#include "models/lowering/shapes/parameters.hpp"

#include <algorithm>
#include <array>

#include "models/base/error.hpp"
#include "models/lowering/shapes/muon_parts.hpp"
#include "models/ops/column_blocks.hpp"

namespace tandem::lowering {
namespace {

/// Number of tensors in a block of this kind, its experts included.
std::int32_t block_tensors(const Shapes& s, LayerKind kind) {
  return whole_block_region(s.of(kind)).tensors() + (kind.has_experts() ? experts_region(s).tensors() : 0);
}

/// For each layer: number of tensors in all blocks before it. The last entry counts all blocks.
std::vector<std::int32_t> tensors_before(const Shapes& s) {
  std::array<std::int32_t, kLayerKinds> each{};
  for (const LayerKind kind : kinds_of(s)) each[kind.index()] = block_tensors(s, kind);
  const std::int32_t decoder = s.decoder_layers > 0 ? whole_block_region(s.decoder()).tensors() : 0;
  std::vector<std::int32_t> before(1, 0);
  for (std::int64_t l = 0; l < s.layers(); ++l)
    before.push_back(before.back() + (s.is_decoder_layer(l) ? decoder : each[s.kinds[static_cast<std::size_t>(l)].index()]));
  return before;
}

/// Number of tensors in an MTP module.
std::int32_t module_tensors(const Shapes& s) { return mtp_region(s).tensors() + block_tensors(s, s.kinds.back()); }

bool in_layers(RegionKind kind) {
  return kind == RegionKind::block || kind == RegionKind::quantized || kind == RegionKind::experts;
}

std::int32_t base_tensors(const Shapes& s, const std::vector<std::int32_t>& blocks_before);

/// Number of tensors of all adapters before layer `layer`.
std::int32_t adapters_before(const Shapes& s, std::int64_t layer) {
  if (!s.adapters.here()) return 0;
  std::array<std::int32_t, kLayerKinds> each{};
  for (const LayerKind kind : kinds_of(s))
    each[kind.index()] = adapter_region(s.of(kind)).tensors() + (kind.has_experts() ? expert_adapter_region(s).tensors() : 0);
  std::int32_t n = 0;
  for (std::int64_t l = 0; l < layer; ++l) n += each[s.kinds[static_cast<std::size_t>(l)].index()];
  return n;
}

/// Index of a region's first tensor in the whole model's list. Adapters follow the model's own parameters, so these have the
/// same initial values with and without them. Order: word, embedding, tables of relative bias or of
/// positions, blocks with their experts, the norm between encoder and decoder, head, output, MTP modules with their blocks.
std::int32_t first_tensor(const Shapes& s, RegionKind kind, std::int64_t layer, const std::vector<std::int32_t>& blocks_before) {
  if (kind == RegionKind::adapters) return base_tensors(s, blocks_before) + adapters_before(s, layer);
  if (kind == RegionKind::expert_adapters)
    return first_tensor(s, RegionKind::adapters, layer, blocks_before) +
           adapter_region(s.of(s.kinds[static_cast<std::size_t>(layer)])).tensors();
  if (layer >= s.layers()) {
    const std::int32_t before = first_tensor(s, RegionKind::head, -1, blocks_before) + head_region(s).tensors() + (s.tied ? 0 : 1);
    const std::int32_t at = before + static_cast<std::int32_t>(layer - s.layers()) * module_tensors(s);
    if (kind == RegionKind::mtp) return at;
    return at + mtp_region(s).tensors() + (kind == RegionKind::experts ? whole_block_region(s.of(s.kinds.back())).tensors() : 0);
  }
  std::int32_t at = 0;
  if (kind == RegionKind::word) return at;
  at += 1;
  if (kind == RegionKind::embedding) return at;
  at += embedding_region(s).tensors();
  if (kind == RegionKind::relative) return at;
  at += relative_region(s).tensors();
  if (kind == RegionKind::positions) return at;
  at += position_region(s).tensors();
  at += blocks_before[static_cast<std::size_t>(in_layers(kind) ? layer : s.layers())];
  if (kind == RegionKind::block || kind == RegionKind::quantized || kind == RegionKind::bridge) return at;
  if (kind == RegionKind::experts) return at + whole_block_region(s.of(s.kinds[static_cast<std::size_t>(layer)])).tensors();
  if (s.decoder_layers > 0) at += bridge_region(s).tensors();
  if (kind == RegionKind::head) return at;
  return s.tied ? 0 : at + head_region(s).tensors();
}

/// Number of the model's own tensors. A tied output matrix does not count.
std::int32_t base_tensors(const Shapes& s, const std::vector<std::int32_t>& blocks_before) {
  const std::int32_t modules = s.mtp > 0 ? static_cast<std::int32_t>(s.mtp) * module_tensors(s) : 0;
  return first_tensor(s, RegionKind::head, -1, blocks_before) + head_region(s).tensors() + (s.tied ? 0 : 1) + modules;
}

// ---- regions ----

/// Sizes of a layer or an MTP module's block.
Shapes sizes_of(const Shapes& s, std::int64_t layer) {
  return s.is_decoder_layer(layer) ? s.decoder() : s.of(s.kinds[static_cast<std::size_t>(layer)]);
}

RegionLayout block_layout(const Shapes& s, const RegionPlace& r) {
  const std::int64_t module = r.layer - s.layers();
  const std::string prefix = module < 0 ? "layer" + std::to_string(r.layer) + "." : "mtp" + std::to_string(module) + ".";
  if (r.kind == RegionKind::mtp) return mtp_region(s, prefix);
  if (r.kind == RegionKind::experts) return experts_region(s, prefix);
  if (r.kind == RegionKind::expert_adapters) return expert_adapter_region(s, prefix);
  if (r.kind == RegionKind::adapters) return adapter_region(s.of(s.kinds[static_cast<std::size_t>(r.layer)]), prefix);
  if (r.kind == RegionKind::quantized) return quantized_region(sizes_of(s, r.layer), prefix);
  return block_region(sizes_of(s, r.layer), prefix);
}

RegionLayout layout_of(const Shapes& s, const RegionPlace& r) {
  switch (r.kind) {
    case RegionKind::head: return head_region(s);
    case RegionKind::output: return output_region(s);
    case RegionKind::block: case RegionKind::experts: case RegionKind::mtp: case RegionKind::adapters:
    case RegionKind::expert_adapters: case RegionKind::quantized: return block_layout(s, r);
    case RegionKind::bridge: return bridge_region(s);
    case RegionKind::embedding: return embedding_region(s);
    case RegionKind::word: return word_region(s);
    case RegionKind::relative: return relative_region(s);
    case RegionKind::positions: return position_region(s);
  }
  throw ContractError("unknown region");
}

// ---- parameters ----

Param param_of(const Shapes& s, const StageRegion& r, const ParamSpec& spec, std::int32_t index) {
  const std::int64_t t = spec.expert_rows > 0 ? s.expert_tensor : s.tensor;
  Param p;
  p.name = r.layout.prefix() + spec.name;
  p.global_index = p.init_id = index;
  p.offset = r.offset + spec.offset;
  p.rows = spec.rows;
  p.cols = spec.cols;
  p.expert_rows = spec.expert_rows;
  p.vocabulary = spec.vocabulary;
  const std::int64_t rows = spec.expert_rows > 0 ? spec.rows / s.experts_here * s.experts : spec.rows;
  p.full_rows = spec.vocabulary ? s.vocab_size : spec.cut == Cut::rows ? rows * t : rows;
  p.full_cols = spec.cut == Cut::cols ? spec.cols * t : spec.cols;
  p.shard_dim = t == 1 || spec.cut == Cut::none ? -1 : spec.cut == Cut::rows ? 0 : 1;
  p.outer = spec.cut == Cut::cols ? spec.cols : spec.expert_rows > 0 ? spec.expert_rows : spec.rows;
  p.decay = !spec.vector() || r.kind == RegionKind::adapters || r.kind == RegionKind::expert_adapters;  // of rank 1, too
  p.frozen = r.frozen;
  p.quantized = r.quantized();
  p.init = spec.init;
  p.replication = r.layout.replication();
  p.in_norm = !r.copy;
  p.sign_step = spec.sign_step;
  return p;
}

/// Splits a parameter in the queries' rows, if any, and the rows of keys and values, which several tensor ranks
/// hold alike. Full rows are ordered (group, {its queries, k, v}, dim). A rank has part of one group's queries.
void add_kv_copies(std::vector<Param>& out, std::int64_t tensor, const Param& whole, const ParamSpec& spec) {
  const std::int64_t kv = spec.kv_copies, ranks = spec.kv_ranks, q = whole.rows - kv, group = ranks * q + kv;
  Param queries = whole, keys = whole;
  queries.rows = q;
  keys.rows = kv;
  keys.offset += q * whole.cols;
  queries.full_rows = keys.full_rows = whole.first + group * (tensor / ranks);
  queries.repeat = keys.repeat = ranks;
  queries.outer = keys.outer = group;
  queries.inner = q;
  keys.inner = 0;
  keys.first += ranks * q;
  if (q > 0) out.push_back(std::move(queries));
  out.push_back(std::move(keys));
}

/// Splits a parameter into its blocks of rows, which tensor ranks cut one by one. The last one may have rows of keys.
void add_blocks(std::vector<Param>& out, std::int64_t tensor, Param whole, const ParamSpec& spec) {
  const auto widths = widths_of(spec.blocks, whole.rows);
  if (spec.kv_copies > 0) whole.full_rows -= (spec.kv_ranks - 1) * spec.kv_copies * (tensor / spec.kv_ranks);
  std::int64_t at = 0;
  for (const std::int64_t rows : widths) {
    if (rows == 0) continue;
    Param p = whole;
    p.rows = p.outer = rows;
    p.first = at * tensor;
    p.shard_dim = 0;  // on one rank, too: a block has rows of its own
    p.offset += at * p.cols;
    p.continues = at > 0;
    if (at + widths.back() == whole.rows && spec.kv_copies > 0) add_kv_copies(out, tensor, p, spec);
    else out.push_back(std::move(p));
    at += rows;
  }
}

/// The parameter of `spec`, or the parts of it that tensor ranks cut one by one. Muon makes such parts orthogonal one by one, too.
std::vector<Param> params_of(const Shapes& s, const StageRegion& r, const ParamSpec& spec, std::int32_t index) {
  const Param p = param_of(s, r, spec, index);
  const bool muon = s.muon && updated_by_muon(r, spec);
  std::vector<Param> mine;
  if (spec.blocks.any() && (s.tensor > 1 || muon)) add_blocks(mine, s.tensor, p, spec);
  else if (spec.kv_copies > 0) add_kv_copies(mine, s.tensor, p, spec);
  else mine.push_back(p);
  if (!muon) return mine;
  const Shapes layer = sizes_of(s, r.layer);
  for (Param& part : mine) part.matrices = muon_parts(layer, spec, part);
  return mine;
}

/// Position of a parameter among those of its region, and of a block's among all of the block, quantized or not: an initial value is
/// the same either way.
std::int32_t number_in_model(const Shapes& s, const StageRegion& r, const ParamSpec& spec) {
  const bool block = r.kind == RegionKind::block || r.kind == RegionKind::quantized;
  const std::vector<ParamSpec> all = block ? whole_block_region(sizes_of(s, r.layer)).specs() : r.layout.specs();
  const auto is = [&](const ParamSpec& p) { return p.name == spec.name; };
  return static_cast<std::int32_t>(std::find_if(all.begin(), all.end(), is) - all.begin());
}

void add_params(StageParams& out, const Shapes& s, const StageRegion& r, const std::vector<std::int32_t>& before) {
  const std::int32_t first = first_tensor(s, r.kind, r.layer, before);
  std::vector<Param> mine;
  for (const ParamSpec& spec : r.layout.specs())
    for (Param& p : params_of(s, r, spec, first + number_in_model(s, r, spec))) mine.push_back(std::move(p));
  std::stable_sort(mine.begin(), mine.end(), [](const Param& a, const Param& b) { return a.offset < b.offset; });
  out.params.insert(out.params.end(), mine.begin(), mine.end());
}

}  // namespace

std::int32_t StageParams::find(RegionKind kind, std::int64_t layer) const {
  const auto known = region_of.find({kind, layer});
  return known == region_of.end() ? -1 : known->second;
}

std::int32_t StageParams::tables() const {
  const auto r = std::find_if(regions.begin(), regions.end(), [](const StageRegion& region) { return is_table(region.kind); });
  return r == regions.end() ? -1 : static_cast<std::int32_t>(r - regions.begin());
}

StageParams stage_params(const Shapes& s, const std::vector<ChunkPart>& chunks, const Sharding& sharding) {
  StageUnits units = stage_units(model_regions(s), chunks, sharding);
  StageParams p;
  p.regions.reserve(units.regions.size());
  for (const RegionPlace& r : units.regions) p.regions.push_back({r, layout_of(s, r)});
  p.unit_regions = std::move(units.unit_regions);
  p.units = std::move(units.units);
  p.flat_elements = units.flat_elements;
  p.shard_elements = units.shard_elements;
  p.trained_elements = units.trained_elements;
  p.trained_shard = units.trained_shard;
  p.quantized_from = units.quantized_from;
  const std::vector<std::int32_t> before = tensors_before(s);
  for (const StageRegion& r : p.regions) {
    p.region_of.try_emplace({r.kind, r.layer}, static_cast<std::int32_t>(&r - p.regions.data()));
    add_params(p, s, r, before);
  }
  return p;
}

std::int64_t global_parameter_count(const Shapes& s) {
  return base_tensors(s, tensors_before(s)) + adapters_before(s, s.layers());
}

}  // namespace tandem::lowering
