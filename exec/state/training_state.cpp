#include "exec/state/training_state.hpp"

#include <algorithm>
#include <map>
#include <set>

#include "exec/state/gather.hpp"
#include "exec/state/state_values.hpp"
#include "models/base/error.hpp"

namespace tandem::exec {
namespace {

/// What an update alone needs (InternEvo's) is gone behind it.
bool stays(const Allocation& a, const Program& program) { return a.first == 0 && a.last + 1 == program.instances.size(); }

/// The optimizer's buffers that are kept from step to step, of any stage.
std::set<std::string> optimizer_buffers(std::span<const RankState> ranks) {
  std::set<std::string> names;
  for (const auto& rank : ranks) {
    for (const auto& a : rank.program->memory.allocations)
      if (a.kind == MemoryKind::optimizer && stays(a, *rank.program)) names.emplace(a.name);
    if (rank.offloaded == nullptr) continue;
    for (const std::string& name : rank.offloaded->buffers())
      if (name != "weights") names.insert(name);
  }
  return names;
}

[[noreturn]] void refuse(const std::string& file, const std::string& field, const std::string& value, const std::string& reason) {
  throw ConfigError(Problem{file, field, value, reason, "resume with the model and the optimizer that were trained"});
}

std::string shape(std::int64_t rows, std::int64_t cols) { return std::to_string(rows) + " x " + std::to_string(cols); }

/// A buffer's tensors by the parameter's place in the whole model: tied copies have the place of the first one.
class Wholes {
 public:
  Wholes(std::span<const RankState> ranks, const StateBuffer& buffer, const std::string& file) : buffer_(buffer), file_(file) {
    for (const auto& rank : ranks)
      for (const Param& p : rank.program->params)
        if (p.in_norm) names_.emplace(p.global_index, p.name);
    for (const GatheredTensor& t : buffer.tensors) tensors_.emplace(t.name, &t);
    require_the_same_names();
  }

  const GatheredTensor& of(const Param& p) const {
    const GatheredTensor& t = *tensors_.at(names_.at(p.global_index));
    const bool rows = p.vocabulary ? t.rows >= p.full_rows : t.rows == p.full_rows;
    if (!rows || t.cols != p.full_cols)
      refuse(file_, field(t.name), shape(t.rows, t.cols), "the plan's model has " + shape(p.full_rows, p.full_cols));
    return t;
  }

 private:
  std::string field(const std::string& tensor) const { return buffer_.name + "." + tensor; }

  void require_the_same_names() const {
    std::set<std::string> known;
    for (const auto& [index, name] : names_) {
      known.insert(name);
      if (!tensors_.contains(name)) refuse(file_, field(name), "", "is missing");
    }
    for (const auto& [name, tensor] : tensors_)
      if (!known.contains(name)) refuse(file_, field(name), "", "is not in the plan's model");
  }

  const StateBuffer& buffer_;
  const std::string& file_;
  std::map<std::int32_t, std::string> names_;
  std::map<std::string, const GatheredTensor*> tensors_;
};

struct ParamStretch {
  const Param* param;
  Stretch at;
};

/// What a rank has of a buffer: copies of weights that others update are whole.
std::vector<ParamStretch> stretches(const RankState& rank, bool weights) {
  std::vector<ParamStretch> all;
  if (weights && !rank.program->weights_sharded) {
    for (const Param& p : rank.program->params) all.push_back({&p, {0, p.used(rank.seat.share_of(p)), p.offset}});
    return all;
  }
  for (const ParamPiece& p : param_pieces(*rank.program, rank.seat))
    all.push_back({p.param, {p.first, p.count, weights ? p.weight : p.state}});
  return all;
}

void restore(const RankState& rank, const StateBuffer& buffer, const Wholes& wholes, DType kept) {
  const auto offset = state_offset(rank, buffer.name);
  if (offset < 0) return;  // a stage without parameters
  StateValues values(*rank.arena, offset, kept);
  for (const ParamStretch& s : stretches(rank, buffer.name == "weights"))
    values.write(s.at, share_map(*s.param, rank), wholes.of(*s.param).values);
}

}  // namespace

TrainingState collect_state(std::span<const RankState> ranks, const Plan& plan) {
  TrainingState state;
  const auto collect = [&](const std::string& name) {
    const DType kept = kept_type(plan, name);
    state.buffers.push_back({name, kept, gather(ranks, name, kept)});
  };
  collect("weights");
  for (const std::string& name : optimizer_buffers(ranks)) collect(name);
  return state;
}

void restore_state(std::span<const RankState> ranks, const Plan& plan, const TrainingState& state) {
  std::set<std::string> missing = optimizer_buffers(ranks);
  missing.insert("weights");
  for (const StateBuffer& buffer : state.buffers) {
    if (missing.erase(buffer.name) == 0) refuse(state.file, buffer.name, "", "the plan's optimizer keeps no such buffer");
    const Wholes wholes(ranks, buffer, state.file);
    for (const auto& rank : ranks)
      if (rank.arena != nullptr) restore(rank, buffer, wholes, kept_type(plan, buffer.name));
  }
  if (!missing.empty()) refuse(state.file, *missing.begin(), "", "is missing");
}

}  // namespace tandem::exec
