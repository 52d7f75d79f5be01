#pragma once
// The ranks of this process: made, connected and given their first state; and the states of all ranks, as this process sees them.

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "exec/process/world.hpp"
#include "exec/run/rank_session.hpp"
#include "exec/run/run_options.hpp"
#include "exec/run/run_segments.hpp"
#include "exec/state/param_layout.hpp"

namespace tandem::exec {

/// Where ranks report that they failed; called inside the exception's handler.
using RankFailed = std::function<void(Rank)>;

class OwnRanks {
 public:
  OwnRanks(const Plan& plan, const RunSegments& segments, const RunOptions& options, World& world)
      : plan_(plan), segments_(segments), options_(options), world_(world), here_(world.here()) {}

  /// Makes and connects the ranks. Returns false if a rank's memory could not be allocated, or a rank not connected: it is reported to
  /// `unmade`. `failed`: see RankExecutor.
  bool make(const RankFailed& unmade, const RankFailed& failed);
  /// Initial values, weights from elsewhere, or the state of the run that goes on.
  void begin_states();

  const std::vector<Rank>& here() const { return here_; }  ///< ascending and contiguous
  std::size_t place(Rank rank) const { return rank.index() - here_.front().index(); }
  const std::vector<std::unique_ptr<RankSession>>& sessions() const { return sessions_; }
  RankSession& first() const { return *sessions_.front(); }
  Communicator& communicator(Rank rank) const { return *comms_[place(rank)]; }

  /// Every rank's share of the parameters, laid out as in `context`. Those of other processes have no arena.
  std::vector<RankState> states_of_all(const RunContext& context) const { return states_of_all(context, nullptr); }
  /// Process 0 calls `read` with the states of all ranks. The other processes serve its reads meanwhile. All processes call it.
  void read_all(const RunContext& context, const std::function<void(std::span<const RankState>)>& read) const;

 private:
  std::unique_ptr<Backend> make_backend(Rank rank) const;
  void make_rank(Rank rank, std::unique_ptr<Communicator> comm, const RankFailed& failed);
  bool connect(const RankFailed& unmade);
  bool lacks_weights(const RunContext& first) const;
  std::vector<RankState> states(const RunContext& context) const;
  std::vector<RankState> states_of_all(const RunContext& context, std::vector<std::unique_ptr<Memory>>* remote) const;
  void serve() const;

  const Plan& plan_;
  const RunSegments& segments_;
  const RunOptions& options_;
  World& world_;
  const std::vector<Rank> here_;
  std::vector<Communicator*> comms_;
  std::vector<std::unique_ptr<RankSession>> sessions_;
};

}  // namespace tandem::exec
