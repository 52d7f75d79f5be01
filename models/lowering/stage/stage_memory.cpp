#include "models/lowering/stage/stage_memory.hpp"

#include <algorithm>
#include <set>

#include "models/base/error.hpp"
#include "models/lowering/stage/muon_matrices.hpp"
#include "models/lowering/stage/update_spec.hpp"
#include "models/lowering/templates/update_ops.hpp"
#include "models/stack/gradient_buckets.hpp"

namespace tandem::lowering {
namespace {

/// Whether the parameter is a matrix of a linear layer in a block or MTP module: all but the router's, experts' included.
bool in_linear_layer(const StageRegion& r, const ParamSpec& p) {
  return (r.kind == RegionKind::block || r.kind == RegionKind::experts || r.kind == RegionKind::mtp ||
          r.kind == RegionKind::adapters || r.kind == RegionKind::expert_adapters) &&
         !p.vector() && p.name != "router.weight";
}

}  // namespace

StageMemory::StageMemory(const StageContext& c, const std::vector<ChunkPart>& chunks, ProgramBuilder& builder)
    : c_(c), s_(c.shapes), b_(builder), z_(sharding_of(c.plan)) {
  for (const ChunkPart& part : chunks) first_ |= part.first, bridge_ |= part.bridge, last_ |= part.last, mtp_ |= part.mtp > 0;
  p_ = stage_params(s_, chunks, z_);
  owners_ = ownership(p_.params, p_.units);
  matrices_ = muon_matrices(p_.params, owners_);
  choose_offloaded();
  if (!only_adapters()) word_uses_ = lowering::word_uses(chunks, s_.tied);
  if (extras() == 0) return;
  const StageRegion& word = p_.regions[static_cast<std::size_t>(word_region())];
  extra_ = word_use_unit(word.elements, p_.units[static_cast<std::size_t>(word.unit)], z_);
}

void StageMemory::choose_offloaded() {
  const OffloadSpec& o = z_.offload;
  const double planned = o.optimizer ? o.ratio * static_cast<double>(p_.shard_elements) : 0;
  std::int64_t so_far = 0;
  for (const ShardUnit& u : p_.units) {
    offloaded_.push_back(static_cast<double>(so_far) < planned);
    so_far += u.shard_elements();
  }
}

// ---- for the whole step ----

void StageMemory::declare(std::int64_t micro_batches) {
  std::vector<Bytes> weights, quantized;
  for (const ShardUnit& u : p_.units)
    if (u.quantized) quantized.push_back(unit_bytes(u, s_.adapters.base, weights_sharded()));
    else weights.push_back(unit_bytes(u, s_.stored_weights(), weights_sharded()));
  if (!weights_offloaded()) weights_ = b_.persistent("weights", MemoryKind::weights, weights);
  if (!quantized.empty()) quantized_ = b_.persistent("quantized_weights", MemoryKind::weights, quantized);
  declare_narrow_weights();
  if (!c_.weights_only) declare_gradients();
  if (!c_.weights_only) declare_states();
  declare_inputs(micro_batches);
  const std::int64_t chunks = s_.tensor_overlap && s_.tensor > 1 ? 3 : 1;
  if (const std::int64_t each = s_.fusion.product_workspace; each > 0)
    b_.persistent("product_workspace", MemoryKind::workspace, {Bytes(chunks * each)});
}

/// Weight copies beside the plan's stored weights: narrow copies of matrices, with
/// scales. If the stored weights are narrow, all other weights take the wider type.
void StageMemory::declare_narrow_weights() {
  if (!s_.narrow.states() || weights_sharded()) return;
  const bool stored = bits(s_.dtypes.weights) <= 8;
  const std::int64_t copies = s_.narrow.weight_copies;
  std::int64_t matrices = 0, others = 0;
  for (const StageRegion& r : p_.regions)
    for (const ParamSpec& p : r.layout.specs()) (in_linear_layer(r, p) ? matrices : others) += p.elements();
  const Bytes each = bytes_of(s_.product, matrices), scales(copies * s_.weight_scales(matrices));
  std::vector<Bytes> pieces;
  for (std::int64_t c = stored ? 1 : 0; c < copies; ++c) pieces.push_back(each);
  if (scales.count() > 0) pieces.push_back(scales);
  if (!pieces.empty()) b_.persistent("weight_copies", MemoryKind::weights, pieces);
  if (stored) b_.persistent("wide_weights", MemoryKind::weights, {bytes_of(s_.dtypes.compute, others) - bytes_of(s_.dtypes.weights, others)});
}

void StageMemory::declare_gradients() {
  const DType d = s_.dtypes.gradients;
  std::vector<Bytes> pieces;
  for (std::size_t u = 0; u < p_.units.size() && !p_.units[u].frozen; ++u) {
    if (gradients_sharded()) {
      pieces.push_back(unit_bytes(p_.units[u], d, true));
      continue;
    }
    const UnitRegions& range = p_.unit_regions[u];
    for (std::int32_t r = range.first; r < range.first + range.count; ++r)
      pieces.push_back(bytes_of(d, p_.regions[static_cast<std::size_t>(r)].elements));
    pieces.back() += bytes_of(d, padding(static_cast<std::int32_t>(u)));
  }
  gradient_pieces_ = static_cast<std::int32_t>(pieces.size());
  if (gradient_buckets(c_.plan).copies) b_.persistent("gradient_buckets", MemoryKind::gradients, {bytes_of(d, p_.trained_elements)});
  if (narrow_gradients() && s_.defer_weights)
    b_.persistent("narrow_gradients", MemoryKind::gradients, {bytes_of(DType::bf16, p_.trained_elements)});
  gradients_ = own_streams() && gradients_sharded() ? b_.persistent_later("gradients", MemoryKind::gradients, pieces, Pool::reductions)
                                                    : b_.persistent("gradients", MemoryKind::gradients, pieces);
  declare_stand_ins();
  for (std::int32_t e = 0; e < extras(); ++e) {
    const Bytes bytes = unit_bytes(extra_, d, gradients_sharded());
    extra_gradients_.push_back(uses_apart() ? b_.persistent("tied_gradient", MemoryKind::gradients, {bytes})
                                            : b_.persistent_uncounted("tied_gradient", MemoryKind::gradients, bytes));
  }
}

bool StageMemory::narrow_gradients() const {
  return s_.fusion.narrow_gradients && s_.dtypes.weights == DType::bf16 && s_.dtypes.gradients == DType::fp32;
}

Bytes StageMemory::narrow_gradient(std::int32_t region) const {
  const bool made = narrow_gradients() && !s_.defer_weights && !frozen(region);
  return made ? bytes_of(DType::bf16, p_.regions[static_cast<std::size_t>(region)].elements) : Bytes(0);
}

/// Declares stand-ins for gradients: one for each shape of linear layers' matrices. Each expert's matrix counts as one.
void StageMemory::declare_stand_ins() {
  if (!s_.fusion.gradient_stand_ins) return;
  std::set<std::pair<std::int64_t, std::int64_t>> shapes;
  for (const StageRegion& r : p_.regions) {
    if (r.frozen) continue;
    for (const ParamSpec& p : r.layout.specs())
      if (in_linear_layer(r, p)) shapes.emplace(p.expert_rows > 0 ? p.expert_rows : p.rows, p.cols);
  }
  std::vector<Bytes> pieces;
  for (const auto& [rows, cols] : shapes) pieces.push_back(bytes_of(s_.dtypes.compute, rows * cols));
  if (!pieces.empty()) b_.persistent("gradient_stand_ins", MemoryKind::gradients, pieces);
}

void StageMemory::declare_states() {
  const UpdateSpec spec = update_spec();
  const OptimizerSpec& o = spec.optimizer;
  for (const OptimizerState& state : optimizer_states(o, spec.weights, s_))
    if (elements_of(state, spec) > 0)
      states_[state.name] = b_.persistent(state.name, MemoryKind::optimizer, {bytes_of(state.type, elements_of(state, spec))});
  const auto sums = [&](const char* name, std::int64_t count) {
    states_[name] = b_.persistent(name, MemoryKind::workspace, {bytes_of(DType::int64, count * kExactWords)});
  };
  sums("sums", 1);
  if (o.kind == OptimizerKind::lamb || o.kind == OptimizerKind::lans)
    sums("tensor_sums", spec.global_parameters * (o.kind == OptimizerKind::lamb ? 2 : 3));
  if (o.kind == OptimizerKind::lans) sums("gradient_sums", spec.global_parameters);
}

void StageMemory::declare_inputs(std::int64_t micro_batches) {
  const auto ids = [&](const char* name, std::int64_t each) {
    return b_.persistent(name, MemoryKind::activations, {bytes_of(DType::int32, each * micro_batches)});
  };
  if (first_) tokens_ = ids("tokens", s_.tokens);
  if (first_ && s_.token_types > 0) types_ = ids("types", s_.tokens);
  if (bridge_) decoder_tokens_ = ids("decoder_tokens", last_tokens());
  if (mtp_ && !c_.forward_only) {
    mtp_tokens_ = ids("mtp_tokens", s_.mtp * s_.tokens);
    mtp_targets_ = ids("mtp_targets", s_.mtp * s_.tokens);
  }
  if (!last_) return;
  targets_ = ids("targets", last_tokens());
  if (s_.bert) labels_ = ids("labels", s_.batch);
  loss_ = b_.persistent("loss", MemoryKind::workspace, {bytes_of(DType::fp64, losses())});
}

UpdateSpec StageMemory::update_spec() const {
  UpdateSpec u = lowering::update_spec(c_.plan, s_, z_, p_.trained_elements, p_.trained_shard);
  for (std::size_t i = 0; i < p_.units.size(); ++i)
    if (offloaded_[i]) u.state_elements -= p_.units[i].shard_elements();
  if (weights_offloaded()) u.weight_elements = 0;
  u.global_parameters = global_parameter_count(s_);
  u.matrices = matrices_;
  u.unsquared_elements = elements_of(matrices_);
  if (whole_owned()) {
    u.state_elements = u.own_elements = owners_.states;
    u.unsquared_elements = owners_.states - owners_.seconds;
  }
  return u;
}

UpdateTensors StageMemory::update_tensors(std::int64_t updated) const {
  UpdateTensors u{p_.trained_elements, updated, 0, s_.fusion.collective_elements, bytes_of(s_.dtypes.weights, 1).count()};
  for (const Param& p : p_.params)
    if (!p.frozen) u.largest = std::max(u.largest, p.elements());
  u.sum_bytes = bytes_of(c_.plan.training.dtypes.gradient_reduce, 1).count();
  u.host_waits = c_.plan.training.launch_blocking;
  u.narrow_gradients = bits(s_.dtypes.weights) == 16 && s_.dtypes.gradients == s_.dtypes.weights;
  return u;
}

BufferId StageMemory::begin_update() {
  const Fusion& f = s_.fusion;
  const std::int64_t updated = update_spec().state_elements;
  Bytes cached((weights_sharded() ? f.cached_sharded_bytes : f.cached_bytes) * updated), room(f.step_bytes * updated);
  if (z_.zero_stage == 1 && f.collective_elements > 0 && bits(s_.dtypes.weights) == 16) {
    const UpdateTensors u = update_tensors(updated);
    b_.pass(passing_in_update(u));
    room += sent_gradients(u);
  }
  b_.keep_cached(cached);
  return room.count() > 0 ? b_.allocate_apart("optimizer_step", MemoryKind::optimizer, room) : kNoBuffer;
}

Binding StageMemory::state(std::string_view name) const {
  const auto it = states_.find(name);
  require(it != states_.end(), "the optimizer has no state of this name");
  return {it->second};
}

// ---- by region ----

Binding StageMemory::weights(std::int32_t region) const {
  const StageRegion& r = p_.regions[static_cast<std::size_t>(region)];
  if (r.quantized()) return {quantized_ + r.unit - first_quantized(), 1, bytes_of(s_.adapters.base, r.unit_offset).count()};
  const BufferId buffer = weights_sharded() ? gathered_.at(r.unit) : weights_ + r.unit;
  return {buffer, 1, bytes_of(s_.dtypes.weights, r.unit_offset).count()};
}

BufferId StageMemory::gradient_piece(std::int32_t region) const { return gradients_ + region; }

Binding StageMemory::gradients(std::int32_t region, std::int32_t micro_batch) {
  const StageRegion& r = p_.regions[static_cast<std::size_t>(region)];
  if (!gradients_sharded() && !added_later(region, micro_batch)) return {gradient_piece(region)};
  const auto [it, fresh] = temporary_.try_emplace({r.unit, micro_batch}, kNoBuffer);
  if (!gradients_sharded()) {
    if (fresh)
      it->second = b_.allocate("table_gradients", MemoryKind::gradients, bytes_of(s_.dtypes.gradients, r.elements));
    return {it->second};
  }
  if (fresh)
    it->second = b_.allocate("unit_gradients", MemoryKind::gradients,
                             unit_bytes(unit(r.unit), s_.written_gradients(), false));
  return {it->second, 1, bytes_of(s_.written_gradients(), r.unit_offset).count()};
}

bool StageMemory::added_later(std::int32_t region, std::int32_t micro_batch) const {
  return !gradients_sharded() && micro_batch > 0 && is_table(p_.regions[static_cast<std::size_t>(region)].kind);
}

std::int32_t StageMemory::word_region() const {
  const std::int32_t word = p_.find(RegionKind::word);
  return word >= 0 || !s_.tied ? word : p_.find(RegionKind::output);
}

std::int32_t StageMemory::output_region() const { return s_.tied ? word_region() : p_.find(RegionKind::output); }

std::int32_t StageMemory::extra_unit(WordUse use) const {
  const auto at = std::find(word_uses_.begin(), word_uses_.end(), use);
  require(at != word_uses_.end(), "the word matrix is not used so on this stage");
  const auto place = static_cast<std::int32_t>(at - word_uses_.begin());
  return place == 0 ? -1 : extra_unit(place - 1);
}

Binding StageMemory::word_gradients(WordUse use, std::int32_t micro_batch) {
  const std::int32_t u = extra_unit(use);
  if (u < 0) return gradients(word_region(), micro_batch);
  if (!gradients_sharded()) return unit_gradients(u);
  const auto [it, fresh] = temporary_.try_emplace({u, micro_batch}, kNoBuffer);
  if (fresh)
    it->second = b_.allocate("unit_gradients", MemoryKind::gradients, unit_bytes(extra_, s_.written_gradients(), false));
  return {it->second};
}

Binding StageMemory::output_gradients(std::int32_t micro_batch) {
  return s_.tied ? word_gradients(WordUse::output, micro_batch) : gradients(output_region(), micro_batch);
}

// ---- both ends of the model ----

std::vector<std::int32_t> StageMemory::root_regions(const ChunkPart& part) const {
  if (!weights_sharded() || !c_.plan.parallel.root_unit) return {};
  std::vector<std::int32_t> regions;
  if (part.first || part.bridge || part.mtp > 0)
    regions = {word_region(), p_.find(RegionKind::embedding), p_.find(RegionKind::positions)};
  if (part.last) regions.insert(regions.end(), {p_.find(RegionKind::head), output_region()});
  std::erase(regions, -1);
  return regions;
}

bool StageMemory::in_root(std::int32_t u) const {
  if (!weights_sharded() || !c_.plan.parallel.root_unit) return false;
  if (is_extra(u)) return true;
  switch (p_.regions[static_cast<std::size_t>(p_.unit_regions[static_cast<std::size_t>(u)].first)].kind) {
    case RegionKind::word: case RegionKind::embedding: case RegionKind::positions: case RegionKind::head: case RegionKind::output:
      return true;
    default: return false;
  }
}

// ---- by unit ----

const ShardUnit& StageMemory::unit(std::int32_t u) const {
  return is_extra(u) ? extra_ : p_.units[static_cast<std::size_t>(u)];
}

std::int64_t StageMemory::padding(std::int32_t u) const {
  if (is_extra(u)) return extra_.elements - p_.regions[static_cast<std::size_t>(word_region())].elements;
  const UnitRegions& range = p_.unit_regions[static_cast<std::size_t>(u)];
  std::int64_t used = 0;
  for (std::int32_t r = range.first; r < range.first + range.count; ++r)
    used += p_.regions[static_cast<std::size_t>(r)].elements;
  return p_.units[static_cast<std::size_t>(u)].elements - used;
}

std::int32_t StageMemory::regions_of(std::int32_t u) const {
  return is_extra(u) ? 1 : p_.unit_regions[static_cast<std::size_t>(u)].count;
}

Binding StageMemory::unit_gradients(std::int32_t u) const {
  if (is_extra(u)) return {extra_gradients_[static_cast<std::size_t>(u - extra_unit(0))]};
  if (gradients_sharded()) return {gradients_ + u};
  const UnitRegions& range = p_.unit_regions[static_cast<std::size_t>(u)];
  return {gradients_ + range.first, range.count, 0};
}

void StageMemory::release_gradients(std::int32_t u, std::int32_t micro_batch) {
  const auto it = temporary_.find({u, micro_batch});
  b_.release(it->second);
  temporary_.erase(it);
}

Binding StageMemory::gather_place(std::int32_t u) {
  const Pool pool = gathers_in_place() ? Pool::gathers : Pool::computation;
  const BufferId buffer = b_.allocate("unit_weights", MemoryKind::weights, unit_bytes(unit(u), s_.dtypes.weights, false), pool);
  gathered_[u] = buffer;
  return {buffer};
}

Binding StageMemory::arrival(std::int32_t u) {
  const auto [it, fresh] = arrived_.try_emplace(u, kNoBuffer);
  if (fresh)
    it->second = b_.allocate("arrived_weights", MemoryKind::communication, unit_bytes(unit(u), s_.dtypes.weights, false),
                             Pool::gathers);
  return {it->second};
}

void StageMemory::release_arrival(std::int32_t u) {
  b_.release(arrived_.at(u));
  arrived_.erase(u);
}

void StageMemory::release_weights(std::int32_t u) {
  b_.release(gathered_.at(u));
  gathered_.erase(u);
}

}  // namespace tandem::lowering
