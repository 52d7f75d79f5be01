#pragma once
// NCCL's communicators of one rank: made without blocking, ended at once when a run fails.

#include <functional>
#include <mutex>
#include <string>
#include <vector>

#include "exec/cuda/resources.hpp"
#include "exec/nccl/api.hpp"
#include "exec/process/control.hpp"
#include "models/base/ids.hpp"

namespace tandem::exec::nccl {

/// One thread calls; abort() and error() may come from any.
class Connections {
 public:
  Connections() = default;
  ~Connections() { end(); }
  Connections(const Connections&) = delete;
  Connections& operator=(const Connections&) = delete;

  /// The one of all ranks; `control` carries its id.
  ncclComm_t join(Control& control, Rank rank, int ranks);
  /// Called by all ranks of `whole` alike. Nothing for those whose color is NCCL_SPLIT_NOCOLOR.
  ncclComm_t split(ncclComm_t whole, int color, int key);
  /// `calls` of NCCL's as one group on `comm`; returns when they are on their streams. Throws CommError.
  void group(ncclComm_t comm, const std::function<void(const Api&)>& calls);
  /// Returns when the stream has come so far. Throws CommError behind an abort.
  void drain(cudaStream_t stream);

  /// Ends all communicators, and kernels that wait in them. The first cause counts.
  void abort(const std::string& cause);
  void require_whole() const;
  /// What NCCL has found wrong since, if anything.
  std::string error() const;
  /// Throws where NCCL's answer is neither success nor "in progress".
  void require_well(ncclResult_t result, ncclComm_t comm) const;

 private:
  void settle(const ncclComm_t& comm);
  void end();
  void throw_if_aborted() const;
  std::string text_of(ncclResult_t result, ncclComm_t comm) const;

  const Api api_;
  mutable std::mutex mutex_;
  std::vector<ncclComm_t> comms_;
  std::string cause_;
  bool aborted_ = false;
};

}  // namespace tandem::exec::nccl
