#include "models/lowering/shapes/stage_units.hpp"

#include <algorithm>
#include <limits>

#include "models/lowering/shapes/buckets.hpp"
#include "models/plan/mesh.hpp"

namespace tandem::lowering {
namespace {

constexpr std::int64_t kBlock = 64;  ///< elements per block of GradNorm

std::int64_t up(std::int64_t n, std::int64_t to) { return (n + to - 1) / to * to; }

RegionSize size_of(const RegionLayout& layout) { return {layout.padded_elements(), layout.replication()}; }

// ---- regions ----

/// Matrices shared with other stages that a stage holds.
struct Shared {
  bool first = false, own_output = false;
  std::int32_t word_chunk = -1;     ///< chunk whose regions contain the word matrix; -1: none
};

Shared shared_of(const ModelRegions& m, const std::vector<ChunkPart>& chunks) {
  Shared has;
  bool last = false;
  for (std::size_t c = chunks.size(); c-- > 0;) {
    if ((chunks[c].bridge || (chunks[c].mtp > 0 && !m.tied)) && has.word_chunk < 0) has.word_chunk = chunks[c].chunk;
    if (chunks[c].first) has.word_chunk = chunks[c].chunk;
    has.first |= chunks[c].first;
    last |= chunks[c].last;
  }
  has.own_output = last && !(m.tied && has.word_chunk >= 0);
  return has;
}

const RegionSize& block_of(const ModelRegions& m, std::int64_t layer) {
  return m.is_decoder(layer) ? m.decoder : m.blocks[m.kind(layer).index()];
}

void add_chunk(std::vector<RegionPlace>& out, const ModelRegions& m, const ChunkPart& part, const Shared& has) {
  const auto add = [&](RegionKind kind, const RegionSize& size, std::int64_t layer = -1, bool copy = false) {
    const bool frozen = m.frozen && kind != RegionKind::adapters && kind != RegionKind::expert_adapters;
    if (size.elements > 0) out.push_back({kind, part.chunk, layer, copy, frozen, size.replication, size.elements});
  };
  const auto add_word = [&](bool here) {
    if (here && has.word_chunk == part.chunk) add(RegionKind::word, m.word, -1, !has.first);
  };
  const auto add_block = [&](std::int64_t l) {
    add(RegionKind::adapters, m.adapters[m.kind(l).index()], l);
    if (m.kind(l).has_experts()) add(RegionKind::expert_adapters, m.expert_adapters, l), add(RegionKind::experts, m.experts, l);
    add(RegionKind::block, block_of(m, l), l);
    add(RegionKind::quantized, m.quantized[m.kind(l).index()], l);
  };
  const auto add_modules = [&] {
    const std::int64_t first = part.first_layer + part.layers;
    for (std::int64_t l = first + part.mtp; l-- > first;) add_block(l), add(RegionKind::mtp, m.mtp, l);
    if (part.mtp > 0) add_word(!part.first);
  };
  // Modules read the final norm's output, so its gradient is complete after theirs.
  if (part.last && part.mtp == 0) add(RegionKind::head, m.head);
  if (part.last && has.own_output) add(RegionKind::output, m.output, -1, m.tied);
  add_modules();
  if (part.last && part.mtp > 0) add(RegionKind::head, m.head);
  for (std::int64_t l = part.first_layer + part.layers; l-- > part.first_layer;) {
    add_block(l);
    if (!part.bridge || l != m.first_decoder) continue;
    add(RegionKind::bridge, m.bridge);
    add_word(!has.first);
  }
  if (part.first) add(RegionKind::embedding, m.embedding);
  add_word(part.first);
}

std::vector<RegionPlace> regions_of(const ModelRegions& m, const std::vector<ChunkPart>& chunks) {
  const Shared has = shared_of(m, chunks);
  std::vector<RegionPlace> regions;
  std::int64_t layers = 0;
  for (const ChunkPart& c : chunks) layers += c.layers + 2 * c.mtp;
  regions.reserve(static_cast<std::size_t>(2 * layers + 8));
  for (std::size_t c = chunks.size(); c-- > 0;) add_chunk(regions, m, chunks[c], has);
  const auto add_table = [&](RegionKind kind, const RegionSize& table) {
    regions.push_back({kind, 0, -1, !has.first, m.frozen, table.replication, table.elements});
  };
  if (m.relative.elements > 0) add_table(RegionKind::relative, m.relative);
  const bool bridge = std::any_of(chunks.begin(), chunks.end(), [](const ChunkPart& c) { return c.bridge; });
  if (m.shared_positions && (has.first || bridge)) add_table(RegionKind::positions, m.positions);
  std::stable_partition(regions.begin(), regions.end(), [](const RegionPlace& r) { return r.replication == Replication::data; });
  std::stable_partition(regions.begin(), regions.end(), [](const RegionPlace& r) { return !r.frozen; });
  std::stable_partition(regions.begin(), regions.end(), [](const RegionPlace& r) { return !r.quantized(); });
  return regions;
}

// ---- units ----

/// Whether several stages, or uses on one stage, share the matrix. Copies are summed shard by shard, so their shards must match.
bool shared(const ModelRegions& m, const RegionPlace& r) {
  if (r.kind == RegionKind::word) return m.tied || m.first_decoder >= 0 || m.mtp.elements > 0;
  return is_table(r.kind) || (r.kind == RegionKind::output && m.tied);
}

/// Whether a split backward pass computes the region's gradients in its second half. A unit shared with
/// first-half regions would hold all its gradients from the first half on, once for each micro-batch in between.
bool in_second_half(const ModelRegions& m, const RegionPlace& r) {
  return m.defer_weights && (r.kind == RegionKind::block || r.kind == RegionKind::experts);
}

/// Whether a region needs a new unit, separate from the region before it.
bool begins_unit(const ModelRegions& m, const RegionPlace& before, const RegionPlace& r, const Sharding& z) {
  const int zero_stage = z.zero_stage;
  if (before.replication != r.replication || before.frozen != r.frozen || before.quantized() != r.quantized()) return true;
  if (r.frozen) return false;  // nothing is reduced
  if (zero_stage > 0 && (shared(m, r) || shared(m, before))) return true;
  if (z.first_chunk_only && r.chunk != before.chunk) return true;
  return zero_stage > 1 && (r.chunk != before.chunk || in_second_half(m, r) != in_second_half(m, before));
}

/// Bytes of gradients after which a bucket that begins with this region ends; without end for what is not reduced.
Bytes bucket_limit(const RegionPlace& first, const std::vector<ChunkPart>& chunks, const Sharding& z) {
  if (z.zero_stage == 3) return Bytes(0);
  const auto chunk = std::find_if(chunks.begin(), chunks.end(), [&](const ChunkPart& c) { return c.chunk == first.chunk; });
  const bool later = z.first_chunk_only && (chunk == chunks.end() || !chunk->first);
  return first.frozen || later ? Bytes(std::numeric_limits<std::int64_t>::max()) : z.bucket_bytes;
}

std::vector<UnitRegions> unit_regions(const ModelRegions& m, const std::vector<RegionPlace>& regions,
                                      const std::vector<ChunkPart>& chunks, const Sharding& z) {
  std::vector<UnitRegions> units;
  std::vector<std::int64_t> run;
  std::int32_t first = 0;
  const auto close = [&] {
    const Bytes limit = run.empty() ? z.bucket_bytes : bucket_limit(regions[static_cast<std::size_t>(first)], chunks, z);
    for (const Bucket& b : make_buckets(run, limit, bytes_of(m.gradient_reduce, 1)))
      units.push_back({first + b.first, b.count});
    first += static_cast<std::int32_t>(run.size());
    run.clear();
  };
  for (std::size_t i = 0; i < regions.size(); ++i) {
    if (i > 0 && begins_unit(m, regions[i - 1], regions[i], z)) close();
    run.push_back(regions[i].elements);
  }
  close();
  return units;
}

/// Sets the offset of every region and unit. Pads a unit's end until its shards are equal and whole blocks.
void place(StageUnits& p, const Sharding& z) {
  for (std::size_t u = 0; u < p.unit_regions.size(); ++u) {
    const UnitRegions& range = p.unit_regions[u];
    ShardUnit unit;
    unit.offset = p.flat_elements;
    unit.shard_offset = p.shard_elements;
    for (std::int32_t i = range.first; i < range.first + range.count; ++i) {
      RegionPlace& r = p.regions[static_cast<std::size_t>(i)];
      r.offset = unit.offset + unit.elements;
      r.unit = static_cast<std::int32_t>(u);
      r.unit_offset = unit.elements;
      unit.elements += r.elements;
      unit.replication = r.replication;
      unit.frozen = r.frozen;
      unit.quantized = r.quantized();
    }
    const bool whole = unit.frozen && z.zero_stage < 3;  // only gradients and states are sharded
    unit.shards = whole ? 1 : unit.replication == Replication::expert ? z.expert_shards : z.shards;
    unit.elements = up(unit.elements, kBlock * unit.shards);
    p.flat_elements += unit.elements;
    p.shard_elements += unit.shard_elements();
    if (!unit.frozen) p.trained_elements = p.flat_elements, p.trained_shard = p.shard_elements;
    if (!unit.quantized) p.quantized_from = p.flat_elements;
    p.units.push_back(unit);
  }
}

}  // namespace

std::int64_t among_first(const std::vector<ChunkPart>& chunks, const ChunkPart& part, std::int64_t limit) {
  if (limit == 0) return part.layers;
  std::int64_t before = 0;
  for (std::int32_t c = 0; c < part.chunk; ++c) before += chunks[static_cast<std::size_t>(c)].layers;
  return std::clamp<std::int64_t>(limit - before, 0, part.layers);
}

ModelRegions model_regions(const Shapes& s) {
  ModelRegions m;
  m.head = size_of(head_region(s));
  m.output = size_of(output_region(s));
  m.kinds = s.kinds;
  for (const LayerKind kind : kinds_of(s)) {
    m.blocks[kind.index()] = size_of(block_region(s.of(kind)));
    if (kind.has_experts()) m.experts = size_of(experts_region(s));
    if (kind.has_experts() && s.adapters.on_experts()) m.expert_adapters = size_of(expert_adapter_region(s));
    if (s.adapters.here()) m.adapters[kind.index()] = size_of(adapter_region(s.of(kind)));
    m.quantized[kind.index()] = size_of(quantized_region(s.of(kind)));
  }
  m.embedding = size_of(embedding_region(s));
  m.word = size_of(word_region(s));
  m.relative = size_of(relative_region(s));
  m.positions = size_of(position_region(s));
  m.mtp = size_of(mtp_region(s));
  if (s.decoder_layers > 0) {
    m.first_decoder = s.encoder_layers;
    m.decoder = size_of(block_region(s.decoder()));
    m.bridge = size_of(bridge_region(s));
  }
  m.frozen = s.adapters.here();
  m.tied = s.tied;
  m.shared_positions = s.shared_positions();
  m.defer_weights = s.defer_weights;
  m.gradient_reduce = s.dtypes.gradient_reduce;
  return m;
}

Sharding sharding_of(const Plan& plan) {
  Sharding z;
  z.zero_stage = plan.parallel.zero_stage;
  z.shards = shard_group_size(plan);
  z.expert_shards = expert_shard_group_size(plan);
  z.bucket_bytes = plan.parallel.bucket_bytes;
  z.first_chunk_only = plan.stack.facts.buckets_in_first_chunk;
  z.offload = plan.parallel.offload;
  z.gathers_next = plan.parallel.overlap_param_gather;
  return z;
}

StageUnits stage_units(const ModelRegions& m, const std::vector<ChunkPart>& chunks, const Sharding& sharding) {
  StageUnits p;
  p.regions = regions_of(m, chunks);
  p.unit_regions = unit_regions(m, p.regions, chunks, sharding);
  place(p, sharding);
  return p;
}

std::vector<WordUse> word_uses(const std::vector<ChunkPart>& chunks, bool tied) {
  const auto any = [&](bool ChunkPart::*has) {
    return std::any_of(chunks.begin(), chunks.end(), [&](const ChunkPart& c) { return c.*has; });
  };
  std::vector<WordUse> uses;
  if (any(&ChunkPart::first)) uses.push_back(WordUse::input);
  if (any(&ChunkPart::bridge)) uses.push_back(WordUse::decoder_input);
  if (std::any_of(chunks.begin(), chunks.end(), [](const ChunkPart& c) { return c.mtp > 0; })) uses.push_back(WordUse::mtp_input);
  if (any(&ChunkPart::last) && tied) uses.push_back(WordUse::output);
  return uses;
}

bool word_uses_apart(const Plan& plan) { return plan.stack.name == kOwnStack; }

ShardUnit word_use_unit(std::int64_t word, const ShardUnit& unit, const Sharding& sharding) {
  ShardUnit apart;
  apart.shards = sharding.shards;
  apart.elements = sharding.zero_stage > 0 ? unit.elements : word;
  return apart;
}

}  // namespace tandem::lowering
