#pragma once
// The interface of a compute backend. A backend owns one rank's device: its memory, its queues and its kernels.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "exec/backend/memory.hpp"
#include "exec/backend/piece_row.hpp"
#include "exec/backend/queue.hpp"
#include "exec/backend/update_rows.hpp"
#include "models/graph/task_graph.hpp"

namespace tandem::exec {

/// Totals since the backend was made. Checks compare them with the task graph's own totals.
struct BackendCounters {
  std::int64_t gemm_flops = 0;       ///< 2 m n k, summed over the matrix products that ran
  std::int64_t allocated_bytes = 0;  ///< live bytes that allocate() has handed out
  std::int64_t peak_bytes = 0;
  std::int64_t workspace_bytes = 0;  ///< scratch memory of the queues' kernels and libraries; not part of allocated_bytes
  std::int64_t device_bytes = 0;     ///< used on the device by all processes, as the driver reports it; 0 on the CPU
};

/// Whether a backend can perform an operation, and if not, the reason.
struct Answer {
  bool possible = true;
  std::string reason;  ///< completes "the NAME backend cannot do ..."
};

/// The data types of one computation.
struct OperandTypes {
  DType compute;
  std::span<const DType> in, out;  ///< in the order of the operation's operands; empty: any type is accepted
};

/// A recorded sequence of launches that can be issued again with one call (a CUDA graph).
class Replay {
 public:
  virtual ~Replay() = default;
  /// Runs after everything issued to the compute stream's queue. Work issued to that queue later waits for it. Throws DeviceError.
  virtual void start() = 0;
};

/// One thread at a time may call these methods. The queues are exceptions: each may be driven by its own thread.
class Backend {
 public:
  virtual ~Backend() = default;
  /// The backend's name, for error messages.
  virtual std::string_view name() const = 0;
  /// True if the host runs ahead of its queues: run() returns before the work has ended, and only marks (events) order the queues.
  virtual bool asynchronous() const = 0;
  /// True if the host must fill Launch::rows before it issues. If a launch has no rows, its queue reads them and blocks.
  virtual bool needs_rows() const { return false; }
  /// A run calls this for every task before it starts.
  virtual Answer supports(const Op& op, const OperandTypes& types) const = 0;
  /// Allocates device memory. Throws DeviceError if there is not enough.
  virtual std::unique_ptr<Memory> allocate(std::size_t bytes) = 0;
  /// Allocates host memory that HostCopy tasks can reach. Throws DeviceError if there is not enough.
  virtual std::unique_ptr<Memory> allocate_host(std::size_t bytes) = 0;
  /// The memory that holds the rank's StepTable. counters() do not include it.
  virtual Memory& step_table() = 0;
  /// The memory that KernelContext::documents points into: `bytes` in the first call, which decides. counters() do not include it.
  virtual Memory& documents(std::size_t bytes) = 0;
  /// Sets the parameter pieces, in ascending order, that GradNorm and the optimizers process. No queue may be busy.
  virtual void load_pieces(std::span<const PieceRow> rows) = 0;
  /// Gives each AdamW task pieces of its own, chosen by KernelContext::layer, until the next load_pieces(). No queue may be busy.
  virtual void split_updates(std::span<const UpdateRows> updates) = 0;
  /// The queue of a stream; always the same object for the same stream.
  virtual Queue& queue(Stream stream) = 0;
  virtual std::unique_ptr<Mark> make_mark() = 0;
  /// Records the computations that `issue` puts on the queues, without performing them. Operands and the targets of their contexts
  /// must stay valid. A backend that cannot record returns nullptr and does not call `issue`.
  virtual std::unique_ptr<Replay> capture(const std::function<void()>& issue) { return static_cast<void>(issue), nullptr; }
  /// Sentences about work that runs in a slower way than the fastest one. Call it when no queue is busy.
  virtual std::vector<std::string> notes() const { return {}; }
  /// Call it when no queue is busy.
  virtual BackendCounters counters() const = 0;
};

/// Makes the backend of one rank. Throws DeviceError.
using BackendFactory = std::function<std::unique_ptr<Backend>(Rank)>;

/// The step table's address, for KernelContext::table.
inline StepTable* table_address(Backend& backend) { return reinterpret_cast<StepTable*>(backend.step_table().address()); }

}  // namespace tandem::exec
