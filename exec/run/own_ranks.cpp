#include "exec/run/own_ranks.hpp"

#include <algorithm>
#include <map>
#include <new>
#include <set>
#include <string>
#include <utility>

#include "exec/cpu/backend.hpp"
#include "exec/process/remote_memory.hpp"
#include "exec/process/together.hpp"
#include "exec/run/lines.hpp"
#include "exec/run/requirements.hpp"
#include "exec/state/initialise.hpp"
#include "models/base/error.hpp"
#include "models/plan/adapters.hpp"
#include "models/planfile/plan_trained.hpp"

namespace tandem::exec {

bool OwnRanks::make(const RankFailed& unmade, const RankFailed& failed) {
  auto comms = options_.make_communicators ? options_.make_communicators(world_) : world_.make_communicators();
  for (std::size_t i = 0; i < here_.size(); ++i) try {
      make_rank(here_[i], std::move(comms[i]), failed);
    } catch (const DeviceError&) {
      return unmade(here_[i]), false;
    } catch (const std::bad_alloc&) {
      return unmade(here_[i]), false;
    }
  return connect(unmade);
}

std::unique_ptr<Backend> OwnRanks::make_backend(Rank rank) const {
  return options_.make_backend ? options_.make_backend(rank) : make_cpu_backend(computing_threads(plan_));
}

void OwnRanks::make_rank(Rank rank, std::unique_ptr<Communicator> comm, const RankFailed& failed) {
  RankParts parts{rank, make_backend(rank), std::move(comm), nullptr, nullptr, nullptr};
  if (rank == here_.front())
    for (const auto* c : segments_.contexts()) require_supported(c->plan, c->graph, *parts.backend);
  std::size_t documents = 0;
  for (const auto* c : segments_.contexts()) documents = std::max(documents, documents_bytes(*c));
  if (documents > 0) parts.backend->documents(documents);  // for all graphs
  const auto stage = StageId(segments_.mesh().coords(rank)[Axis::pp]);
  parts.arena = parts.backend->allocate(static_cast<std::size_t>(segments_.arena_bytes(stage).count()));
  // 0xFF bytes are NaN as floating point, so reading a byte that nobody wrote becomes visible.
  parts.arena->fill(0, parts.arena->size(), std::byte{0xFF});
  if (const auto offloaded = segments_.offloaded(stage)) {
    std::shared_ptr<Memory> host = parts.backend->allocate_host(static_cast<std::size_t>(offloaded->host().bytes().count()));
    host->fill(0, host->size(), std::byte{0});  // as initialise() clears states on the device
    parts.states = std::make_shared<StateMemory>(offloaded, parts.arena, std::move(host));
  }
  if (const Bytes bytes = segments_.host_activation_bytes(stage); bytes.count() > 0) {
    parts.activations = parts.backend->allocate_host(static_cast<std::size_t>(bytes.count()));
    parts.activations->fill(0, parts.activations->size(), std::byte{0xFF});
  }
  comms_.push_back(parts.comm.get());
  sessions_.push_back(std::make_unique<RankSession>(std::move(parts), failed));
}

/// Connects the communicators before the first step, in the same order in all processes.
bool OwnRanks::connect(const RankFailed& unmade) {
  const Lines lines = lines_of(segments_.contexts());
  for (std::size_t i = 0; i < comms_.size(); ++i) try {
      comms_[i]->prepare(lines, segments_.mesh());
    } catch (const InfeasibleError&) {
      throw;  // an error of the plan or the build is the same in every process
    } catch (...) {
      return unmade(here_[i]), false;
    }
  return true;
}

void OwnRanks::begin_states() {
  const RunContext& first = *segments_.all().front().context;
  if (options_.weights != nullptr) {
    lacks_weights(first) ? initialise(states(first), plan_, options_.initialise) : initialise_adapters(states(first), plan_);
    return together(world_.control(), [&] { load_weights(states_of_all(first), plan_, *options_.weights); });
  }
  initialise(states(first), plan_, options_.initialise);
  if (options_.resume != nullptr)
    together(world_.control(), [&] { restore_state(states_of_all(first), plan_, *options_.resume); });
}

/// Whether weights from elsewhere are not all of the model's, beside adapters.
bool OwnRanks::lacks_weights(const RunContext& first) const {
  std::set<std::string> given;
  for (const SavedTensor& t : options_.weights->tensors()) given.insert(t.name);
  const std::vector<SavedTensor> kept = kept_tensors(states_of_all(first), plan_);
  const auto lacks = [&](const SavedTensor& t) { return !is_adapter_parameter(t.name) && !given.contains(t.name); };
  return std::any_of(kept.begin(), kept.end(), lacks);
}

std::vector<RankState> OwnRanks::states(const RunContext& context) const {
  std::vector<RankState> all;
  for (const auto& rank : sessions_) all.push_back(rank->state(context));
  return all;
}

/// Arenas of other processes are RemoteMemory, kept in `remote`, or nullptr if `remote` is.
std::vector<RankState> OwnRanks::states_of_all(const RunContext& context, std::vector<std::unique_ptr<Memory>>* remote) const {
  std::vector<RankState> all;
  for (std::int64_t r = 0; r < world_.places().ranks(); ++r) {
    const Rank rank(static_cast<std::int32_t>(r));
    const auto stage = StageId(context.mesh.coords(rank)[Axis::pp]);
    all.push_back(rank_state(context.graph.program(stage), context.mesh, rank, nullptr));
    all.back().offloaded = segments_.offloaded(stage).get();
    if (const int process = world_.places().process_of(rank); remote != nullptr && process != world_.control().process()) {
      remote->push_back(std::make_unique<RemoteMemory>(world_.control(), process, rank, segments_.state_bytes(stage)));
      all.back().arena = remote->back().get();
    }
  }
  for (const auto& rank : sessions_) all[rank->rank().index()] = rank->state(context);
  return all;
}

void OwnRanks::read_all(const RunContext& context, const std::function<void(std::span<const RankState>)>& read) const {
  if (!world_.control().first()) return serve();
  std::vector<std::unique_ptr<Memory>> remote;
  const auto all = states_of_all(context, &remote);
  try {
    read(all);
  } catch (const CommError&) {
    throw;  // nobody listens any more
  } catch (...) {
    end_serving(world_.control());
    throw;
  }
  end_serving(world_.control());
}

void OwnRanks::serve() const {
  std::map<Rank, const Memory*> arenas;
  for (const auto& rank : sessions_) arenas[rank->rank()] = &rank->states();
  serve_memory(world_.control(), arenas);
}

}  // namespace tandem::exec
