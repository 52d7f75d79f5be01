#include "exec/state/initialise.hpp"

#include <algorithm>
#include <cmath>

#include "exec/data/normals.hpp"
#include "exec/state/state_values.hpp"
#include "exec/state/training_state.hpp"
#include "models/base/error.hpp"
#include "models/base/threads.hpp"

namespace tandem::exec {
namespace {

/// Residual projections start smaller, so that the residual stream's variance does not grow with depth (Radford et al.,
/// "Language models are unsupervised multitask learners", 2019, section 2.3).
double deviation(const Param& p, const ModelSpec& model) {
  if (p.init == Param::Init::normal_scaled)
    return model.init_std / std::sqrt(2.0 * static_cast<double>(model.num_layers));
  return model.init_std;
}

/// A rank with what it updates.
struct Holder {
  RankState rank;
  std::vector<ParamPiece> pieces;
};

void write_weights(const Param& p, const Holder& h, const std::vector<double>& full, DType dtype) {
  const auto offset = state_offset(h.rank, "weights");
  if (offset < 0) return;
  StateValues to(*h.rank.arena, offset, dtype);
  const ShareMap map = share_map(p, h.rank);
  if (!h.rank.program->weights_sharded) return to.write({0, p.used(h.rank.seat.share_of(p)), p.offset}, map, full);
  for (const auto& piece : h.pieces)
    if (piece.param == &p) to.write({piece.first, piece.count, piece.weight}, map, full);
}

void write_master(const Param& p, const Holder& h, const std::vector<double>& full, DType dtype) {
  const auto offset = state_offset(h.rank, "master");
  if (offset < 0) return;
  StateValues to(*h.rank.arena, offset, dtype);
  for (const auto& piece : h.pieces)
    if (piece.param == &p) to.write({piece.first, piece.count, piece.state}, share_map(p, h.rank), full);
}

/// Of weights, what belongs to no parameter stays zero: the padding of a vocabulary takes part in matrix products.
bool starts_at_zero(const Allocation& a) {
  return a.name == "weights" || a.name == "gradients" || a.name == "loss" || a.kind == MemoryKind::optimizer;
}

void clear_state(const RankState& rank) {
  for (const auto& a : rank.program->memory.allocations)
    if (starts_at_zero(a))
      rank.arena->fill(static_cast<std::size_t>(a.offset), static_cast<std::size_t>(a.bytes.count()), std::byte{0});
}

std::vector<std::vector<Holder>> by_stage(std::span<const RankState> ranks) {
  std::vector<std::vector<Holder>> stages;
  for (const auto& rank : ranks) {
    const auto stage = rank.program->stage.index();
    if (stages.size() <= stage) stages.resize(stage + 1);
    stages[stage].push_back({rank, param_pieces(*rank.program, rank.seat)});
  }
  return stages;
}

/// Pieces of one tensor follow each other in a program's list, so the last one is all there is to remember.
class WholeTensors {
 public:
  WholeTensors(const Plan& plan, const std::function<void(const std::string&, std::vector<double>&)>& replace)
      : plan_(plan), replace_(replace) {}

  const std::vector<double>& of(const Param& p) {
    if (p.name == name_) return full_;
    full_ = initial_values(p, plan_);
    if (replace_) replace_(p.name, full_);
    require(full_.size() == static_cast<std::size_t>(p.full_rows * p.full_cols), "initial values of another size");
    name_ = p.name;
    return full_;
  }

 private:
  const Plan& plan_;
  const std::function<void(const std::string&, std::vector<double>&)>& replace_;
  std::string name_;
  std::vector<double> full_;
};

}  // namespace

std::vector<double> initial_values(const Param& p, const Plan& plan) {
  std::vector<double> full(static_cast<std::size_t>(p.full_rows * p.full_cols), p.init == Param::Init::ones ? 1.0 : 0.0);
  if (p.init == Param::Init::ones || p.init == Param::Init::zeros) return full;
  const double sigma = deviation(p, plan.model);
  const RandomStream stream = RandomStream::initial(plan.training.seed, p.init_id);
  constexpr std::size_t kAtOnce = 1 << 16;  // numbers of one thread: they depend on their index alone
  for_each_index((full.size() + kAtOnce - 1) / kAtOnce, {all_cores()}, [&](std::size_t part) {
    const std::size_t first = part * kAtOnce;
    const auto mine = std::span(full).subspan(first, std::min(kAtOnce, full.size() - first));
    fill_normals(stream, first, mine);
    for (double& value : mine) value *= sigma;
  });
  return full;
}

void initialise(std::span<const RankState> ranks, const Plan& plan,
                const std::function<void(const std::string&, std::vector<double>&)>& replace) {
  for (const auto& rank : ranks) clear_state(rank);
  for (const auto& stage : by_stage(ranks)) {
    if (stage.empty()) continue;
    WholeTensors tensors(plan, replace);
    for (const auto& p : stage.front().rank.program->params) {
      const auto& full = tensors.of(p);
      for (const auto& holder : stage) {
        write_weights(p, holder, full, kept_type(plan, "weights"));
        write_master(p, holder, full, kept_type(plan, "master"));
      }
    }
  }
}

}  // namespace tandem::exec
