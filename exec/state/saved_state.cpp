#include "exec/state/saved_state.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "exec/state/stored_values.hpp"
#include "models/base/error.hpp"
#include "models/base/threads.hpp"
#include "models/plan/kept_type.hpp"

namespace tandem::exec {
namespace {

constexpr const char* kWeights = "weights";
constexpr int kMostReaders = 8;  // each holds one part in memory

/// False for buffers that exist only during an update (InternEvo).
bool stays(const Allocation& a, const Program& program) { return a.first == 0 && a.last + 1 == program.instances.size(); }

/// "weights", and the optimizer buffers of any stage that live from step to step.
std::vector<std::string> kept_buffers(std::span<const RankState> ranks) {
  std::set<std::string> names;
  for (const auto& rank : ranks) {
    for (const auto& a : rank.program->memory.allocations)
      if (a.kind == MemoryKind::optimizer && stays(a, *rank.program)) names.emplace(a.name);
    if (rank.offloaded == nullptr) continue;
    for (const std::string& name : rank.offloaded->buffers())
      if (name != kWeights) names.insert(name);
  }
  std::vector<std::string> all{kWeights};
  all.insert(all.end(), names.begin(), names.end());
  return all;
}

/// Parameters by global index. A tied copy has the first copy's index; the first copy is taken.
std::map<std::int32_t, const Param*> first_copies(std::span<const RankState> ranks) {
  std::map<std::int32_t, const Param*> params;
  for (const auto& rank : ranks)
    for (const Param& p : rank.program->params)
      if (p.in_norm) params.emplace(p.global_index, &p);
  return params;
}

/// Whether a buffer holds anything of a parameter: optimizers keep no states of frozen ones, and no second moments of Muon's.
bool keeps(const std::string& buffer, const Param& p) {
  return buffer == kWeights || (!p.frozen && !(buffer == "exp_avg_sq" && p.matrices.any()));
}

[[noreturn]] void refuse(const SavedState& state, const std::string& field, const std::string& value, const std::string& reason) {
  throw ConfigError(Problem{state.file(), field, value, reason, "resume with the model and the optimizer that were trained"});
}

std::string shape(std::int64_t rows, std::int64_t cols) { return std::to_string(rows) + " x " + std::to_string(cols); }

std::string field_of(const SavedTensor& t) { return t.buffer + "." + t.name; }

/// Position in state.tensors() of each (buffer, name).
std::map<std::pair<std::string, std::string>, std::size_t> named(const SavedState& state) {
  std::map<std::pair<std::string, std::string>, std::size_t> all;
  for (std::size_t i = 0; i < state.tensors().size(); ++i) all[{state.tensors()[i].buffer, state.tensors()[i].name}] = i;
  return all;
}

void require_no_other(const SavedState& state, const std::vector<SavedTensor>& wanted) {
  std::set<std::string> buffers, fields;
  for (const SavedTensor& t : wanted) buffers.insert(t.buffer), fields.insert(field_of(t));
  for (const SavedTensor& t : state.tensors()) {
    if (!buffers.contains(t.buffer)) refuse(state, t.buffer, "", "the plan's optimizer keeps no such buffer");
    if (!fields.contains(field_of(t))) refuse(state, field_of(t), "", "is not in the plan's model");
  }
}

/// By (buffer, global index): where the ranks hold the parameter.
using Places = std::map<std::pair<std::string, std::int32_t>, std::vector<BlockPlace>>;

Places places_of(std::span<const RankState> ranks, const Plan& plan, const std::vector<std::string>& buffers) {
  Places places;
  for (const RankState& rank : ranks) {
    if (rank.arena == nullptr) continue;
    for (const std::string& buffer : buffers) {
      const auto offset = state_offset(rank, buffer);
      if (offset < 0) continue;  // a stage without parameters
      for (const HeldBlock& held : held_blocks(rank, buffer))
        places[{buffer, held.param->global_index}].push_back(place_of(rank, held, offset, kept_type(plan, buffer)));
    }
  }
  return places;
}

/// A part of a saved tensor, and the places that need it.
struct Wanted {
  std::size_t tensor, part;
  std::vector<const BlockPlace*> places;
};

void add_wanted(const SavedState& state, std::size_t tensor, const std::vector<BlockPlace>& places, std::vector<Wanted>& out) {
  const auto& parts = state.tensors()[tensor].parts;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    Wanted w{tensor, i, {}};
    for (const BlockPlace& place : places)
      if (!meet(parts[i], place.block).empty()) w.places.push_back(&place);
    if (!w.places.empty()) out.push_back(std::move(w));
  }
}

void read_parts(const SavedState& state, const std::vector<Wanted>& wanted) {
  for_each_index(wanted.size(), {std::min(kMostReaders, all_cores())}, [&](std::size_t i) {
    const SavedTensor& t = state.tensors()[wanted[i].tensor];
    const Block& part = t.parts[wanted[i].part];
    std::vector<std::byte> room(static_cast<std::size_t>(part.elements()) * stored_bytes(t.type));
    state.read(wanted[i].tensor, wanted[i].part, room);
    for (const BlockPlace* place : wanted[i].places) write_common({part, t.type, room.data()}, *place);
  });
}

}  // namespace

std::vector<SavedTensor> kept_tensors(std::span<const RankState> ranks, const Plan& plan) {
  std::vector<SavedTensor> all;
  const auto params = first_copies(ranks);
  for (const std::string& buffer : kept_buffers(ranks))
    for (const auto& [index, p] : params)
      if (keeps(buffer, *p))
        all.push_back({buffer, p->name, p->quantized ? kDequantized : kept_type(plan, buffer), p->full_rows, p->full_cols, {}});
  return all;
}

void restore_state(std::span<const RankState> ranks, const Plan& plan, const SavedState& state) {
  const std::vector<SavedTensor> wanted = kept_tensors(ranks, plan);
  std::map<std::string, const Param*> params;
  for (const auto& [index, p] : first_copies(ranks)) params.emplace(p->name, p);
  const auto saved = named(state);
  const Places places = places_of(ranks, plan, kept_buffers(ranks));
  require_no_other(state, wanted);
  std::vector<Wanted> parts;
  for (const SavedTensor& t : wanted) {
    const Param& p = *params.at(t.name);
    const auto found = saved.find({t.buffer, t.name});
    if (found == saved.end()) refuse(state, field_of(t), "", "is missing");
    const SavedTensor& has = state.tensors()[found->second];
    if ((p.vocabulary ? has.rows < t.rows : has.rows != t.rows) || has.cols != t.cols)
      refuse(state, field_of(t), shape(has.rows, has.cols), "the plan's model has " + shape(t.rows, t.cols));
    if (const auto here = places.find({t.buffer, p.global_index}); here != places.end())
      add_wanted(state, found->second, here->second, parts);
  }
  read_parts(state, parts);
}

void load_weights(std::span<const RankState> ranks, const Plan& plan, const SavedState& state) {
  constexpr const char* kMaster = "master";
  auto params = first_copies(ranks);
  const auto saved = named(state);
  std::erase_if(params, [&](const auto& p) { return !saved.contains({kWeights, p.second->name}); });
  require(saved.size() == params.size(), "pretrained weights of another model");
  const Places places = places_of(ranks, plan, {kWeights, kMaster});
  std::map<std::int32_t, std::vector<BlockPlace>> of_both;
  for (const auto& [key, held] : places) of_both[key.second].insert(of_both[key.second].end(), held.begin(), held.end());
  std::vector<Wanted> parts;
  for (const auto& [index, p] : params) {
    const std::size_t tensor = saved.at({kWeights, p->name});
    const SavedTensor& has = state.tensors()[tensor];
    const bool rows = p->vocabulary ? has.rows >= p->full_rows : has.rows == p->full_rows;  // earlier versions saved padding
    require(rows && has.cols == p->full_cols, "pretrained weights of another shape");
    if (const auto here = of_both.find(index); here != of_both.end()) add_wanted(state, tensor, here->second, parts);
  }
  read_parts(state, parts);
}

}  // namespace tandem::exec
