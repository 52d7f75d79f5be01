#include "sim/cost/calibration.hpp"

#include <nlohmann/json.hpp>

#include "models/base/json.hpp"
#include "models/base/presets.hpp"
#include "topology/fact_reader.hpp"

namespace tandem::sim {
namespace {

using nlohmann::json;

constexpr std::string_view kFolder = "topology/calibration";

std::vector<std::int64_t> counts(FactReader& r, const std::string& key) {
  const json& list = r.fact(key);
  std::vector<std::int64_t> out;
  if (!list.is_array() || list.empty()) r.refuse(key, "must be a list of whole numbers");
  for (const json& v : list) {
    if (!v.is_number_integer() || v.get<std::int64_t>() < 1) r.refuse(key, "must hold whole numbers above zero");
    out.push_back(v.get<std::int64_t>());
  }
  return out;
}

bool is_tile(const json& t) {
  return t.is_array() && t.size() == 3 && t[0].is_number_integer() && t[1].is_number_integer() && t[2].is_number() &&
         t[0].get<std::int64_t>() > 0 && t[1].get<std::int64_t>() > 0 && t[2].get<double>() > 0;
}

double share(FactReader& r, const std::string& key) {
  const double v = r.number(key, 0);
  if (v <= 0 || v > 1) r.refuse(key, "a share is above 0 and at most 1");
  return v;
}

void read_tiles(FactReader& r, MatMulFit& m) {
  m.fill_k = r.number("fill_k", 0);
  m.wave_softening = r.number("wave_softening", 0);
  m.split_k = counts(r, "split_k");
  for (const json& t : r.fact("tiles")) {
    if (!is_tile(t)) r.refuse("tiles", "must hold [rows, columns, relative rate]");
    m.tiles.push_back({t[0].get<std::int64_t>(), t[1].get<std::int64_t>(), t[2].get<double>()});
  }
  if (m.tiles.empty()) r.refuse("tiles", "needs at least one tile");
  if (!r.has("alignment_bytes")) return;
  m.alignment_bytes = r.whole("alignment_bytes", 1);
  m.unaligned_share = share(r, "unaligned_share");
}

void read_rounding(FactReader& r, MatMulFit& m) {
  const std::vector<std::int64_t> tile = counts(r, "tile");
  if (tile.size() != 3) r.refuse("tile", "must be [m, n, k]");
  m.round_m = tile[0], m.round_n = tile[1], m.round_k = tile[2];
}

MatMulFit read_matmul(FactReader r) {
  MatMulFit m;
  m.ceiling = share(r, "ceiling");
  if (r.has("sum_exposed")) m.sum_exposed = r.number("sum_exposed", 0);
  m.narrow_ceiling = r.has("narrow_ceiling") ? share(r, "narrow_ceiling") : m.ceiling;
  m.block_ceiling = r.has("block_ceiling") ? share(r, "block_ceiling") : m.narrow_ceiling;
  m.fp4_ceiling = r.has("fp4_ceiling") ? share(r, "fp4_ceiling") : m.narrow_ceiling;
  if (r.has("vector_ceiling")) m.vector_ceiling = share(r, "vector_ceiling");
  const std::string model = r.text("model", "flat");
  if (model == "tiles") {
    m.model = MatMulFit::Model::tiles;
    read_tiles(r, m);
  } else if (model == "rounded") {
    m.model = MatMulFit::Model::rounded;
    read_rounding(r, m);
  } else if (model != "flat") {
    r.refuse("model", "must be flat, rounded or tiles");
  }
  r.finish();
  return m;
}

FlashFit read_flash(FactReader r) {
  FlashFit a;
  a.forward_share = share(r, "forward_share");
  a.backward_share = share(r, "backward_share");
  a.half_keys = r.number("half_keys", 0);
  a.tile_rows = r.number("tile_rows", 1);
  a.fill = r.number("fill", 0);
  if (r.has("dropout_factor")) a.dropout_factor = r.number("dropout_factor", 1);
  if (r.has("deterministic_factor")) a.deterministic_factor = r.number("deterministic_factor", 1);
  if (r.has("ordered_blocks")) a.ordered_blocks = static_cast<double>(r.whole("ordered_blocks", 1));
  if (r.has("head_64_factor")) a.head_64_factor = r.number("head_64_factor", 0);
  if (r.has("head_dims")) a.head_dims = counts(r, "head_dims");
  r.finish();
  return a;
}

CommFit read_comm(FactReader r) {
  CommFit c;
  c.overhead = r.duration("overhead_s");
  if (r.has("in_step_overhead_s")) c.in_step_overhead = r.duration("in_step_overhead_s");
  c.inside_share = share(r, "inside_share");
  if (r.has("in_step_share")) c.in_step_share = share(r, "in_step_share");
  if (r.has("in_switch_share")) c.in_switch_share = share(r, "in_switch_share");
  if (r.has("ring_copy_bytes_per_s")) c.ring_copy = r.bandwidth("ring_copy_bytes_per_s");
  c.across_share = share(r, "across_share");
  if (r.has("in_step_across_share")) c.in_step_across_share = share(r, "in_step_across_share");
  if (r.has("shared_nic_share")) c.shared_nic_share = share(r, "shared_nic_share");
  if (r.has("nccl_architecture")) {
    c.nccl = nccl_architecture(r.text("nccl_architecture", ""));
    if (!c.nccl) r.refuse("nccl_architecture", "must be volta, ampere, hopper, blackwell, cdna2 or cdna3");
  }
  if (r.has("compute_slowdown")) c.compute_slowdown = r.number("compute_slowdown", 0);
  if (r.has("chunked_exposed")) c.chunked_exposed = r.number("chunked_exposed", 0);
  r.finish();
  return c;
}

double spread(FactReader& r) {
  constexpr double kMost = 0.2;  // devices of one kind that differ by more are no kind
  const double s = r.number("spread", 0);
  if (s > kMost) r.refuse("spread", "must be at most 0.2: a standard deviation, as a share", "write for example 0.02");
  return s;
}

std::string path_of(const std::string& name) {
  if (is_preset_path(name)) return name;
  const std::string path = find_preset(kFolder, name);
  if (!path.empty()) return path;
  Problem p = unknown_preset(kFolder, name, "calibration");
  p.field = "calibration";
  throw ConfigError(p);
}

/// Kernels without a fit of their own get FlashAttention 2's.
void read_attention(FactReader& r, Calibration& c) {
  if (r.has("flash_attention")) c.flash.fill(read_flash(r.object("flash_attention")));
  const auto own = [&](const char* key, AttentionKernel kernel) {
    if (r.has(key)) c.attention(kernel) = read_flash(r.object(key));
  };
  own("flash1_attention", AttentionKernel::flash1);
  own("triton_attention", AttentionKernel::triton);
  own("tuned_attention", AttentionKernel::tuned);
  own("own_attention", AttentionKernel::own);
}

}  // namespace

Calibration load_calibration(const std::string& name) {
  Calibration c;
  if (name.empty()) return c;
  const std::string path = path_of(name);
  const json file = read_json(path);
  FactReader r(file, path, "", c.unverified);
  r.text("describes", "");
  r.text("notes", "");
  r.text("errors", "");  // read by sim/result/error_book
  c.caveat = r.text("caveat", "");
  c.matmul = read_matmul(r.object("matmul"));
  read_attention(r, c);
  if (r.has("deterministic_dropout_attention")) c.deterministic_dropout_flash = read_flash(r.object("deterministic_dropout_attention"));
  if (r.has("spread")) c.spread = spread(r);
  c.memory_share = share(r, "memory_share");
  if (r.has("stream_factor")) c.stream_factor = r.number("stream_factor", 0);
  if (r.has("cast_bytes")) c.cast_bytes = r.number("cast_bytes", 0);
  c.kernel = r.duration("kernel_s");
  if (r.has("launch_s")) c.launch = r.duration("launch_s");
  c.comm = read_comm(r.object("communication"));
  r.finish();
  return c;
}

}  // namespace tandem::sim
