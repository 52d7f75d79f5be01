#pragma once
// What computes. A backend owns one rank's device: its memory, its queues and its kernels.

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

/// What a backend has been asked for since it was made: the second, independent set of books.
struct BackendCounters {
  std::int64_t gemm_flops = 0;       ///< 2 m n k summed over matrix products as they were called
  std::int64_t allocated_bytes = 0;  ///< live bytes handed out by allocate()
  std::int64_t peak_bytes = 0;
  std::int64_t workspace_bytes = 0;  ///< what its queues use beside operands; not in the above
  std::int64_t device_bytes = 0;     ///< in use on its device as the driver counts, by everybody; 0 where there is none
};

/// Whether a backend can do something, and if not, what it is.
struct Answer {
  bool possible = true;
  std::string reason;  ///< ends "the ... backend cannot do ..."
};

/// The types of one computation.
struct OperandTypes {
  DType compute;
  std::span<const DType> in, out;  ///< in the order of the operation's operands; empty: whatever suits
};

/// What was issued once, to be issued again as a whole.
class Replay {
 public:
  virtual ~Replay() = default;
  /// Behind everything issued to the compute stream's queue, which waits for all of it. Throws DeviceError.
  virtual void start() = 0;
};

/// Methods are for one thread at a time, but for those of its queues, each of which may have a thread of its own.
class Backend {
 public:
  virtual ~Backend() = default;
  /// For messages.
  virtual std::string_view name() const = 0;
  /// Whether its queues run ahead of the host: what is issued has then not ended, and queues wait for each other by marks alone.
  virtual bool asynchronous() const = 0;
  /// Whether the host must know Launch::rows before it can issue; where a launch has none, its queue reads them and waits.
  virtual bool needs_rows() const { return false; }
  /// Asked for every task before a run starts.
  virtual Answer supports(const Op& op, const OperandTypes& types) const = 0;
  /// Throws DeviceError where there is no room.
  virtual std::unique_ptr<Memory> allocate(std::size_t bytes) = 0;
  /// Memory of the host that HostCopies reach. Throws DeviceError where there is no room.
  virtual std::unique_ptr<Memory> allocate_host(std::size_t bytes) = 0;
  /// Memory of one StepTable, which counters() leave out.
  virtual Memory& step_table() = 0;
  /// What GradNorm and the optimizers work on from now on, ascending. No queue may be working.
  virtual void load_pieces(std::span<const PieceRow> rows) = 0;
  /// What AdamW works on instead, by KernelContext::layer, until load_pieces is called again. No queue may be working.
  virtual void split_updates(std::span<const UpdateRows> updates) = 0;
  /// The same one for a stream every time.
  virtual Queue& queue(Stream stream) = 0;
  virtual std::unique_ptr<Mark> make_mark() = 0;
  /// Keeps what `issue` issues to the queues, computations alone, and performs none of it. Operands, and all that a task's context names,
  /// must stay. nullptr, and `issue` is not called, where the backend cannot.
  virtual std::unique_ptr<Replay> capture(const std::function<void()>& issue) { return static_cast<void>(issue), nullptr; }
  /// Sentences about work that it does in another way than the fastest. When no queue is working.
  virtual std::vector<std::string> notes() const { return {}; }
  /// When no queue is working.
  virtual BackendCounters counters() const = 0;
};

/// Makes one rank's backend. Throws DeviceError.
using BackendFactory = std::function<std::unique_ptr<Backend>(Rank)>;

/// The step table's place, for KernelContext.
inline StepTable* table_address(Backend& backend) { return reinterpret_cast<StepTable*>(backend.step_table().address()); }

}  // namespace tandem::exec
