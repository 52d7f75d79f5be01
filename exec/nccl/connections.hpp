#pragma once
// The NCCL communicators of one rank. They are set up without blocking and closed at once when a run fails.

#include <functional>
#include <mutex>
#include <string>
#include <vector>

#include "exec/cuda/resources.hpp"
#include "exec/nccl/api.hpp"
#include "exec/process/control.hpp"
#include "models/base/ids.hpp"

namespace tandem::exec::nccl {

/// For one thread; but any thread may call abort() and error().
class Connections {
 public:
  Connections() = default;
  ~Connections() { end(); }
  Connections(const Connections&) = delete;
  Connections& operator=(const Connections&) = delete;

  /// Joins the communicator of all ranks. `control` transfers its id.
  ncclComm_t join(Control& control, Rank rank, int ranks);
  /// Splits `whole`; all its ranks must call it. Returns nullptr to ranks whose color is NCCL_SPLIT_NOCOLOR.
  ncclComm_t split(ncclComm_t whole, int color, int key);
  /// Makes the NCCL calls in `calls` as one group on `comm`. Returns when they are enqueued. Throws CommError.
  void group(ncclComm_t comm, const std::function<void(const Api&)>& calls);
  /// Blocks until the stream's work has ended. Throws CommError after an abort.
  void drain(cudaStream_t stream);

  /// Closes all communicators and ends kernels that wait in them. Only the first cause is kept.
  void abort(const std::string& cause);
  void require_whole() const;
  /// Any error that NCCL has reported since; empty: none.
  std::string error() const;
  /// Throws if NCCL's result is neither success nor "in progress".
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
