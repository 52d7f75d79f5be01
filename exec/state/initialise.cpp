#include "exec/state/initialise.hpp"

#include <algorithm>
#include <cmath>
#include <map>

#include "exec/data/normals.hpp"
#include "exec/state/stored_values.hpp"
#include "models/base/error.hpp"
#include "models/base/threads.hpp"
#include "models/plan/kept_type.hpp"

namespace tandem::exec {
namespace {

/// Residual projections start smaller, so that the residual stream's variance does not grow with depth (Radford et al.,
/// "Language models are unsupervised multitask learners", 2019, section 2.3).
double deviation(const Param& p, const ModelSpec& model) {
  if (p.init == Param::Init::normal_scaled)
    return model.init_std / std::sqrt(2.0 * static_cast<double>(model.num_layers));
  return model.init_std;
}

/// Weights start at zero, so that vocabulary padding stays zero: it takes part in matrix products.
bool starts_at_zero(const Allocation& a) {
  return a.name == "weights" || a.name == kQuantizedWeights || a.name == "gradients" || a.name == "loss" || a.kind == MemoryKind::optimizer;
}

void clear_state(const RankState& rank) {
  for (const auto& a : rank.program->memory.allocations)
    if (starts_at_zero(a))
      rank.arena->fill(static_cast<std::size_t>(a.offset), static_cast<std::size_t>(a.bytes.count()), std::byte{0});
}

constexpr std::int64_t kAtOnce = 1 << 16;  // values per thread and task; a value depends only on its index

/// By parameter: where the ranks of a stage hold it.
using Places = std::map<const Param*, std::vector<BlockPlace>>;

void add_places(const RankState& rank, const Plan& plan, Places& places) {
  for (const char* buffer : {"weights", "master"}) {
    const auto offset = state_offset(rank, buffer);
    if (offset < 0) continue;
    for (const HeldBlock& held : held_blocks(rank, buffer))
      places[held.param].push_back(place_of(rank, held, offset, kept_type(plan, buffer)));
  }
}

std::map<std::size_t, std::vector<RankState>> by_stage(std::span<const RankState> ranks) {
  std::map<std::size_t, std::vector<RankState>> stages;
  for (const RankState& rank : ranks) stages[rank.program->stage.index()].push_back(rank);
  return stages;
}

/// The smallest block that contains the overlaps of `part` with all places.
Block held_of(const Block& part, std::span<const BlockPlace> places) {
  Block all;
  for (const BlockPlace& place : places) {
    const Block b = meet(part, place.block);
    if (b.empty()) continue;
    if (all.empty()) all = b;
    const std::int64_t row = std::min(all.row, b.row), col = std::min(all.col, b.col);
    all = {row, col, std::max(all.row + all.rows, b.row + b.rows) - row, std::max(all.col + all.cols, b.col + b.cols) - col};
  }
  return all;
}

/// A function that fills in the values of a block, row by row.
using Values = std::function<void(const Block&, std::span<double>)>;

/// Computes the values that any of the places holds, once, on all cores, and writes them to each place.
void write(const Param& p, std::span<const BlockPlace> places, const Values& values) {
  const std::vector<Block> parts = parts_of({0, 0, p.full_rows, p.full_cols}, kAtOnce);
  for_each_index(parts.size(), {all_cores()}, [&](std::size_t i) {
    const Block held = held_of(parts[i], places);
    if (held.empty()) return;
    std::vector<double> room(static_cast<std::size_t>(held.elements()));
    values(held, room);
    for (const BlockPlace& place : places) write_common({held, DType::fp64, std::as_bytes(std::span(room)).data()}, place);
  });
}

/// Initial values of a recurrence, by their index: see Param::Init.
double recurrent(Param::Init init, const RandomStream& stream, std::uint64_t index) {
  constexpr double kFastestDecay = 16, kShortestStep = 0.001, kLongestStep = 0.1;
  if (init == Param::Init::log_index) return std::log(static_cast<double>(index + 1));
  const double u = stream.uniform(index);
  if (init == Param::Init::log_uniform) return std::log(kFastestDecay * (1 - u));  // never of 0
  const double step = kShortestStep * std::pow(kLongestStep / kShortestStep, u);
  return step + std::log(-std::expm1(-step));  // softplus turns it into `step`
}

/// Initial values [first, first + out.size()) of the whole parameter.
void draw(const Param& p, const Plan& plan, std::uint64_t first, std::span<double> out) {
  if (p.init == Param::Init::ones || p.init == Param::Init::zeros)
    return std::fill(out.begin(), out.end(), p.init == Param::Init::ones ? 1.0 : 0.0);
  const RandomStream stream = RandomStream::initial(plan.training.seed, p.init_id);
  if (p.init == Param::Init::log_uniform || p.init == Param::Init::log_index || p.init == Param::Init::log_step) {
    for (std::size_t i = 0; i < out.size(); ++i) out[i] = recurrent(p.init, stream, first + i);
    return;
  }
  fill_normals(stream, first, out);
  const double sigma = deviation(p, plan.model);
  for (double& value : out) value *= sigma;
}

/// body(index in the whole parameter, index in the block, count) for each contiguous run of the block's values.
template <class F>
void each_line(const Param& p, const Block& b, F body) {
  const std::int64_t length = b.cols == p.full_cols ? b.elements() : b.cols;
  for (std::int64_t done = 0; done < b.elements(); done += length)
    body(static_cast<std::size_t>((b.row + done / b.cols) * p.full_cols + b.col), static_cast<std::size_t>(done),
         static_cast<std::size_t>(length));
}

void write_drawn(const Param& p, const Plan& plan, std::span<const BlockPlace> places) {
  write(p, places, [&](const Block& b, std::span<double> out) {
    each_line(p, b, [&](std::size_t whole, std::size_t at, std::size_t n) { draw(p, plan, whole, out.subspan(at, n)); });
  });
}

void write_given(const Param& p, std::span<const double> full, std::span<const BlockPlace> places) {
  require(full.size() == static_cast<std::size_t>(p.full_rows * p.full_cols), "initial values of another size");
  write(p, places, [&](const Block& b, std::span<double> out) {
    each_line(p, b, [&](std::size_t whole, std::size_t at, std::size_t n) {
      std::copy_n(full.begin() + static_cast<std::ptrdiff_t>(whole), n, out.begin() + static_cast<std::ptrdiff_t>(at));
    });
  });
}

}  // namespace

std::vector<double> initial_values(const Param& p, const Plan& plan) {
  std::vector<double> full(static_cast<std::size_t>(p.full_rows * p.full_cols));
  draw(p, plan, 0, full);
  return full;
}

void initialise_adapters(std::span<const RankState> ranks, const Plan& plan) {
  for (const auto& rank : ranks) clear_state(rank);
  for (const auto& [number, stage] : by_stage(ranks)) {
    Places places;
    for (const RankState& rank : stage) add_places(rank, plan, places);
    for (const Param& p : stage.front().program->params)
      if (is_adapter_parameter(p.name)) write_drawn(p, plan, places[&p]);
  }
}

void initialise(std::span<const RankState> ranks, const Plan& plan,
                const std::function<void(const std::string&, std::vector<double>&)>& replace) {
  for (const auto& rank : ranks) clear_state(rank);
  for (const auto& [number, stage] : by_stage(ranks)) {
    Places places;
    for (const RankState& rank : stage) add_places(rank, plan, places);
    for (const Param& p : stage.front().program->params) {
      if (!replace) {
        write_drawn(p, plan, places[&p]);
        continue;
      }
      std::vector<double> full = initial_values(p, plan);
      replace(p.name, full);
      write_given(p, full, places[&p]);
    }
  }
}

}  // namespace tandem::exec
