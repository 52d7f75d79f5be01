#include "models/lowering/shapes/parameters.hpp"

#include <algorithm>

#include "models/lowering/shapes/buckets.hpp"

namespace tandem::lowering {
namespace {

constexpr std::int64_t kBlock = 64;  ///< elements; GradNorm's blocks

std::int64_t up(std::int64_t n, std::int64_t to) { return (n + to - 1) / to * to; }

/// Of every layer, how many mixtures of experts there are before it; then, how many there are.
std::vector<std::int32_t> mixtures_before(const Shapes& s) {
  std::vector<std::int32_t> before(1, 0);
  for (const bool moe : s.moe_layer) before.push_back(before.back() + moe);
  return before;
}

/// Tensors of all blocks before `layer`, their experts included.
std::int32_t tensors_before(const Shapes& s, std::int64_t layer, const std::vector<std::int32_t>& mixtures) {
  const std::int32_t moe = mixtures[static_cast<std::size_t>(layer)];
  const auto decoder = static_cast<std::int32_t>(s.decoder_layers > 0 ? std::max<std::int64_t>(0, layer - s.encoder_layers) : 0);
  const std::int32_t dense = static_cast<std::int32_t>(layer) - moe - decoder;
  const std::int32_t each = moe > 0 ? block_region(s, true).tensors() + experts_region(s).tensors() : 0;
  const std::int32_t extra = decoder > 0 ? decoder * block_region(s.decoder(), false).tensors() : 0;
  return dense * block_region(s, false).tensors() + moe * each + extra;
}

/// Place of a region's first tensor in the whole model's list: word, embedding, tables of relative bias or of positions, blocks
/// with their experts, the norm between encoder and decoder, head, output.
std::int32_t first_tensor(const Shapes& s, RegionKind kind, std::int64_t layer, const std::vector<std::int32_t>& mixtures) {
  std::int32_t at = 0;
  if (kind == RegionKind::word) return at;
  at += 1;
  if (kind == RegionKind::embedding) return at;
  at += embedding_region(s).tensors();
  if (kind == RegionKind::relative) return at;
  at += relative_region(s).tensors();
  if (kind == RegionKind::positions) return at;
  at += position_region(s).tensors();
  const bool in_layers = kind == RegionKind::block || kind == RegionKind::experts;
  at += tensors_before(s, in_layers ? layer : static_cast<std::int64_t>(s.moe_layer.size()), mixtures);
  if (kind == RegionKind::block || kind == RegionKind::bridge) return at;
  if (kind == RegionKind::experts) return at + block_region(s, true).tensors();
  if (s.decoder_layers > 0) at += bridge_region(s).tensors();
  if (kind == RegionKind::head) return at;
  return s.tied ? 0 : at + head_region(s).tensors();
}

// ---- regions ----

/// What a stage has of the matrices that several stages have.
struct Shared {
  bool first = false, own_output = false;
  std::int32_t word_chunk = -1;     ///< where the word matrix stands in the list; -1: nowhere
};

Shared shared_of(const Shapes& s, const std::vector<ChunkPart>& chunks) {
  Shared has;
  bool last = false;
  for (std::size_t c = chunks.size(); c-- > 0;) {
    if (chunks[c].bridge && has.word_chunk < 0) has.word_chunk = chunks[c].chunk;
    if (chunks[c].first) has.word_chunk = chunks[c].chunk;
    has.first |= chunks[c].first;
    last |= chunks[c].last;
  }
  has.own_output = last && !(s.tied && has.word_chunk >= 0);
  return has;
}

void add_chunk(std::vector<StageRegion>& out, const Shapes& s, const ChunkPart& part, const Shared& has) {
  const auto add = [&](RegionKind kind, RegionLayout layout, std::int64_t layer = -1, bool copy = false) {
    if (layout.elements() > 0) out.push_back({kind, part.chunk, layer, std::move(layout), copy});
  };
  const auto add_word = [&](bool here) {
    if (here && has.word_chunk == part.chunk) add(RegionKind::word, word_region(s), -1, !has.first);
  };
  if (part.last) add(RegionKind::head, head_region(s));
  if (part.last && has.own_output) add(RegionKind::output, output_region(s), -1, s.tied);
  for (std::int64_t l = part.first_layer + part.layers; l-- > part.first_layer;) {
    const bool moe = s.moe_layer[static_cast<std::size_t>(l)];
    const std::string prefix = "layer" + std::to_string(l) + ".";
    if (moe) add(RegionKind::experts, experts_region(s, prefix), l);
    add(RegionKind::block, block_region(s.is_decoder_layer(l) ? s.decoder() : s, moe, prefix), l);
    if (!part.bridge || l != s.encoder_layers) continue;
    add(RegionKind::bridge, bridge_region(s));
    add_word(!has.first);
  }
  if (part.first) add(RegionKind::embedding, embedding_region(s));
  add_word(part.first);
}

std::vector<StageRegion> regions_of(const Shapes& s, const std::vector<ChunkPart>& chunks) {
  const Shared has = shared_of(s, chunks);
  std::vector<StageRegion> regions;
  for (std::size_t c = chunks.size(); c-- > 0;) add_chunk(regions, s, chunks[c], has);
  if (s.relative_buckets > 0) regions.push_back({RegionKind::relative, 0, -1, relative_region(s), !has.first});
  const bool bridge = std::any_of(chunks.begin(), chunks.end(), [](const ChunkPart& c) { return c.bridge; });
  if (s.shared_positions() && (has.first || bridge))
    regions.push_back({RegionKind::positions, 0, -1, position_region(s), !has.first});
  std::stable_partition(regions.begin(), regions.end(),
                        [](const StageRegion& r) { return r.layout.replication() == Replication::data; });
  return regions;
}

// ---- units ----

/// A matrix that several stages (or uses on one) share: its gradients are added part by part, so its parts lie alike.
bool shared(const Shapes& s, const StageRegion& r) {
  if (r.kind == RegionKind::word) return s.tied || s.decoder_layers > 0;
  return is_table(r.kind) || (r.kind == RegionKind::output && s.tied);
}

/// Whether a split backward pass gives the region's gradients in its second half: with others in one unit they would be there from the
/// first one on, whole and once for every micro-batch between the two.
bool in_second_half(const Shapes& s, const StageRegion& r) {
  return s.defer_weights && (r.kind == RegionKind::block || r.kind == RegionKind::experts);
}

std::vector<UnitRegions> unit_regions(const Shapes& s, const std::vector<StageRegion>& regions, const Sharding& z) {
  std::vector<UnitRegions> units;
  std::vector<std::int64_t> run;
  std::int32_t first = 0;
  const auto close = [&] {
    const Bytes limit = z.zero_stage == 3 ? Bytes(0) : z.bucket_bytes;
    for (const Bucket& b : make_buckets(run, limit, bytes_of(s.dtypes.gradient_reduce, 1)))
      units.push_back({first + b.first, b.count});
    first += static_cast<std::int32_t>(run.size());
    run.clear();
  };
  for (std::size_t i = 0; i < regions.size(); ++i) {
    const bool alone = z.zero_stage > 0 && shared(s, regions[i]);
    const bool other = i > 0 && regions[i].layout.replication() != regions[i - 1].layout.replication();
    const bool after_alone = i > 0 && z.zero_stage > 0 && shared(s, regions[i - 1]);
    const bool next_chunk = i > 0 && z.zero_stage > 1 && regions[i].chunk != regions[i - 1].chunk;
    const bool next_half = i > 0 && z.zero_stage > 1 && in_second_half(s, regions[i]) != in_second_half(s, regions[i - 1]);
    if (alone || other || after_alone || next_chunk || next_half) close();
    run.push_back(regions[i].elements);
  }
  close();
  return units;
}

/// Gives every region and unit its place. A unit's end is padded until its parts are equal and whole blocks.
void place(StageParams& p, const Sharding& z) {
  for (std::size_t u = 0; u < p.unit_regions.size(); ++u) {
    const UnitRegions& range = p.unit_regions[u];
    ShardUnit unit;
    unit.offset = p.flat_elements;
    unit.shard_offset = p.shard_elements;
    for (std::int32_t i = range.first; i < range.first + range.count; ++i) {
      StageRegion& r = p.regions[static_cast<std::size_t>(i)];
      r.offset = unit.offset + unit.elements;
      r.unit = static_cast<std::int32_t>(u);
      r.unit_offset = unit.elements;
      unit.elements += r.elements;
      unit.replication = r.layout.replication();
    }
    unit.shards = unit.replication == Replication::expert ? z.expert_shards : z.shards;
    unit.elements = up(unit.elements, kBlock * unit.shards);
    p.flat_elements += unit.elements;
    p.shard_elements += unit.shard_elements();
    p.units.push_back(unit);
  }
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
  p.decay = !spec.vector();
  p.init = spec.init;
  p.replication = r.layout.replication();
  p.in_norm = !r.copy;
  return p;
}

/// The queries' rows and the rows of the keys and values, which `kv_repeat` tensor ranks hold alike. Full rows are ordered
/// (group, {its queries, k, v}, dim); a rank has part of one group's queries.
void add_kv_copies(std::vector<Param>& out, const Shapes& s, const Param& whole) {
  const std::int64_t q = s.attention, kv = 2 * s.head_dim, group = s.kv_repeat * q + kv;
  Param queries = whole, keys = whole;
  queries.rows = q;
  keys.rows = kv;
  keys.offset += q * whole.cols;
  queries.full_rows = keys.full_rows = group * (s.tensor / s.kv_repeat);
  queries.repeat = keys.repeat = s.kv_repeat;
  queries.outer = keys.outer = group;
  queries.inner = q;
  keys.inner = 0;
  keys.first = s.kv_repeat * q;
  out.push_back(std::move(queries));
  out.push_back(std::move(keys));
}

void add_params(StageParams& out, const Shapes& s, const StageRegion& r, const std::vector<std::int32_t>& mixtures) {
  std::int32_t index = first_tensor(s, r.kind, r.layer, mixtures);
  std::vector<Param> mine;
  for (const ParamSpec& spec : r.layout.specs()) {
    const Param p = param_of(s, r, spec, index++);
    if (spec.kv_copies) add_kv_copies(mine, s, p);
    else mine.push_back(p);
  }
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
  StageParams p;
  p.regions = regions_of(s, chunks);
  for (StageRegion& r : p.regions) r.elements = r.layout.padded_elements();
  p.unit_regions = unit_regions(s, p.regions, sharding);
  place(p, sharding);
  const std::vector<std::int32_t> mixtures = mixtures_before(s);
  for (const StageRegion& r : p.regions) {
    p.region_of.try_emplace({r.kind, r.layer}, static_cast<std::int32_t>(&r - p.regions.data()));
    add_params(p, s, r, mixtures);
  }
  return p;
}

std::int64_t global_parameter_count(const Shapes& s) {
  return first_tensor(s, RegionKind::head, -1, mixtures_before(s)) + head_region(s).tensors() + (s.tied ? 0 : 1);
}

}  // namespace tandem::lowering
