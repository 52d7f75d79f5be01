#pragma once
// What computes. A backend owns device memory and runs one operation at a time for one rank.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "models/graph/task_graph.hpp"
#include "models/ops/op.hpp"

namespace tandem::exec {

/// Values that change per step and are never baked into a graph: tasks name them, the host sets them.
struct Scalars {
  double learning_rate = 0;
  double bias_correction1 = 1;   ///< 1 - beta1^t
  double bias_correction2 = 1;   ///< 1 - beta2^t
  double grad_norm = 0;          ///< set by ClipCoefficient
  double clip_coefficient = 1;   ///< set by ClipCoefficient
  bool found_nonfinite = false;  ///< set by ClipCoefficient
};

/// Everything an operation may depend on besides its operands. Per task; references outlive the call.
struct KernelContext {
  std::uint64_t seed = 0;
  std::uint64_t step = 0;              ///< 0-based optimizer step
  std::int32_t layer = -1;
  std::int64_t first_sequence = 0;     ///< global index of the micro-batch's first sequence within the run
  std::int64_t seq_length = 0;         ///< tokens of a whole sequence, of the stack that the layer is in
  std::int32_t tensor_rank = 0, tensor_size = 1;
  std::int32_t expert_tensor_rank = 0;  ///< among the ranks that share the matrices of the same experts
  std::int32_t context_rank = 0, context_size = 1;
  Scalars* scalars = nullptr;          ///< of the rank
  std::span<const ParamPiece> pieces;  ///< what the rank updates, ascending (GradNorm and the optimizers)
};

/// Host-visible memory for CPU, device memory for CUDA. Aligned to kArenaAlignment.
class Memory {
 public:
  virtual ~Memory() = default;
  virtual std::byte* data() = 0;
  virtual std::size_t size() const = 0;
};

/// What a backend has been asked for since it was made: the second, independent set of books.
struct BackendCounters {
  std::int64_t gemm_flops = 0;       ///< 2 m n k summed over matrix products as they were called
  std::int64_t allocated_bytes = 0;  ///< live bytes handed out by allocate()
  std::int64_t peak_bytes = 0;
};

/// One rank's device. Not shared between threads, except `counters()` after the run.
class Backend {
 public:
  virtual ~Backend() = default;
  /// For messages.
  virtual std::string_view name() const { return "cpu"; }
  /// Whether `run` can do `op` in `dtype`; asked for every operation before a run starts.
  virtual bool supports(const Op& op, DType dtype) const = 0;
  virtual std::unique_ptr<Memory> allocate(std::size_t bytes) = 0;
  /// Runs one computation to its end. Operand pointers are in the order models/ops/op.hpp documents. Throws DeviceError.
  virtual void run(const Op& op, DType dtype, std::span<const std::byte* const> inputs,
                   std::span<std::byte* const> outputs, const KernelContext& context) = 0;
  virtual BackendCounters counters() const = 0;
};

std::unique_ptr<Backend> make_cpu_backend();

}  // namespace tandem::exec
