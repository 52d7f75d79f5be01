// The reference backend. It computes in fp64 or fp32 (16-bit types in fp32) on the rank's threads.
#include <algorithm>
#include <cstring>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "exec/cpu/backend.hpp"
#include "exec/cpu/gemm/gemm.hpp"
#include "exec/cpu/kernels.hpp"
#include "exec/cpu/memory.hpp"
#include "exec/cpu/widened.hpp"

namespace tandem::exec {
namespace {

bool is_real(DType t) { return t == DType::fp32 || t == DType::fp64 || cpu::is_narrow(t); }
bool is_kept(DType t) { return is_real(t) || t == DType::int32 || t == DType::int64; }
/// Row counts are also copied by Accumulate.
bool is_count_copy(const Accumulate& a) { return a.overwrite && a.source == DType::int32 && a.destination == DType::int32; }

/// 16-bit totals are added in fp32, never in fp64.
bool is_added_in(DType total, DType compute) { return is_real(total) && !(cpu::is_narrow(total) && compute == DType::fp64); }

bool has_kernel(const Op& op, DType compute) {
  if (is_simulated_only(op)) return false;
  return std::visit(overloaded{
                        [](const Collective&) { return false; },
                        [](const Send&) { return false; },
                        [](const Recv&) { return false; },
                        [](const HostCopy&) { return true; },
                        [](const FlashAttention& o) { return o.dims.block == 0; },
                        [](const FlashAttentionBackward& o) { return o.dims.block == 0; },
                        [](const Dequantize& o) { return o.source == DType::nf4 && is_real(o.destination); },
                        [&](const MatMul& o) { return !o.accumulate || is_added_in(o.total, compute); },
                        [&](const GroupedWeightGrad& o) { return !o.accumulate || is_added_in(o.total, compute); },
                        [](const Accumulate& a) { return (is_real(a.source) && is_real(a.destination)) || is_count_copy(a); },
                        [](const auto&) { return true; },
                    },
                    op);
}

/// Kernels that handle their operand types themselves: optimizers, which work piece by piece, and copies of bytes.
bool knows_types(const Op& op) {
  return std::visit(overloaded{
                        [](const GradNorm&) { return true; },
                        [](const AdamW&) { return true; },
                        [](const Sgd&) { return true; },
                        [](const Muon&) { return true; },
                        [](const TensorNorms&) { return true; },
                        [](const LayerwiseMoments&) { return true; },
                        [](const LayerwiseApply&) { return true; },
                        [](const Fill&) { return true; },
                        [](const auto&) { return false; },
                    },
                    op);
}

/// Conversions and fills depend only on their operand types, not on the compute type.
bool converts(const Op& op) {
  return std::holds_alternative<Accumulate>(op) || std::holds_alternative<Fill>(op) || std::holds_alternative<HostCopy>(op);
}

/// A 16-bit master beside 16-bit weights holds only the missing low bits. No kernel here combines the two.
bool has_partial_master(const Op& op, std::span<const DType> out) {
  const auto last_is_narrow = [&](const auto& o) { return o.master && !out.empty() && cpu::is_narrow(out.back()); };
  if (const auto* o = std::get_if<AdamW>(&op)) return last_is_narrow(*o);
  if (const auto* o = std::get_if<Sgd>(&op)) return last_is_narrow(*o);
  if (const auto* o = std::get_if<Muon>(&op)) return last_is_narrow(*o);
  if (const auto* o = std::get_if<LayerwiseApply>(&op)) return last_is_narrow(*o);
  return false;
}

/// Codes of 4 bits, which only one kernel reads.
bool is_stored(DType t, const Op& op) { return is_kept(t) || (t == DType::nf4 && std::holds_alternative<Dequantize>(op)); }

std::string in_type(const Op& op, DType t) { return std::string(kind_name(op)) + " in " + std::string(tandem::name(t)); }

/// bf16 and fp16 are computed in fp32, on fp32 copies of the operands. bf16 factors may also be used directly.
bool can_run(const Op& op, DType compute) { return is_real(compute) && has_kernel(op, compute); }

bool has_narrow(std::span<const Tensor> operands) {
  return std::any_of(operands.begin(), operands.end(), [](const Tensor& t) { return cpu::is_narrow(t.dtype); });
}

/// A mark of a synchronous queue: it is always reached.
class ReachedMark final : public Mark {
 public:
  void wait() override {}
  std::chrono::steady_clock::time_point reached() const override { return at_; }
  void set() { at_ = std::chrono::steady_clock::now(); }

 private:
  std::chrono::steady_clock::time_point at_;
};

class CpuQueue final : public Queue {
 public:
  using Pieces = PieceForms<std::vector<PieceRow>>;
  CpuQueue(const Pieces& pieces, cpu::Team& team) : pieces_(pieces), team_(team) {}

  void run(const Launch& launch) override {
    if (!can_run(launch.op, launch.compute))
      throw DeviceError("the CPU backend cannot run " + in_type(launch.op, launch.compute));
    if (std::holds_alternative<HostCopy>(launch.op)) return copy(launch);
    const bool widens = !knows_types(launch.op) && (has_narrow(launch.in) || has_narrow(launch.out));
    if (widens) return run_widened(launch);
    cpu::Call call(launch, pieces_.of(launch), {team_, gemm_flops_});
    if (launch.compute == DType::fp64)
      compute<double>(launch.op, call);
    else
      compute<float>(launch.op, call);
  }
  void upload(std::byte* to, std::span<const std::byte> from) override { std::copy(from.begin(), from.end(), to); }
  void download(std::span<std::byte> to, const std::byte* from) override { std::copy_n(from, to.size(), to.data()); }
  void mark(Mark& mark) override { static_cast<ReachedMark&>(mark).set(); }
  void wait(const Mark&) override {}
  void finish() override {}

  std::int64_t gemm_flops() const { return gemm_flops_; }

 private:
  template <class T>
  static void compute(const Op& op, cpu::Call& call) {
    std::visit([&](const auto& o) { cpu::compute<T>(o, call); }, op);
  }

  /// Both ends are in host memory.
  static void copy(const Launch& launch) {
    const Tensor &from = launch.in[0], &to = launch.out[0];
    std::memcpy(to.address, from.address, static_cast<std::size_t>(bytes_of(from.dtype, from.elements).count()));
  }

  void run_widened(const Launch& launch) {
    const cpu::Widened widened(launch, team_);
    const Launch wide{launch.op, DType::fp32, widened.in(), widened.out(), launch.context};
    cpu::Call call(wide, pieces_.of(launch), {team_, gemm_flops_}, &widened);
    compute<float>(launch.op, call);
    widened.put();
  }

  const Pieces& pieces_;
  cpu::Team& team_;
  std::int64_t gemm_flops_ = 0;
};

class CpuBackend final : public Backend {
 public:
  template <class... Worth>
  explicit CpuBackend(std::int64_t threads, Worth... worth) : team_(threads, worth...) {
    cpu::prepare_products();
    write_value(*table_, 0, StepTable{});
  }

  std::string_view name() const override { return "cpu"; }
  bool asynchronous() const override { return false; }
  Answer supports(const Op& op, const OperandTypes& types) const override {
    if (!can_run(op, types.compute)) return {false, in_type(op, types.compute)};
    for (const auto operands : {types.in, types.out})
      for (const DType t : operands)
        if (!is_stored(t, op) || (types.compute == DType::fp64 && cpu::is_narrow(t) && !converts(op)))
          return {false, in_type(op, types.compute) + " with an operand in " + std::string(tandem::name(t))};
    if (has_partial_master(op, types.out)) return {false, std::string(kind_name(op)) + " with a master that holds what weights lack"};
    return {};
  }

  std::unique_ptr<Memory> allocate(std::size_t bytes) override { return cpu::allocate(bytes, book_); }
  std::unique_ptr<Memory> allocate_host(std::size_t bytes) override {
    return cpu::allocate(bytes, std::make_shared<cpu::AllocatedBytes>());
  }
  Memory& step_table() override { return *table_; }
  Memory& documents(std::size_t bytes) override {
    if (!documents_) documents_ = cpu::allocate(bytes, std::make_shared<cpu::AllocatedBytes>());
    return *documents_;
  }
  void load_pieces(std::span<const PieceRow> rows) override { pieces_ = {{rows.begin(), rows.end()}, {}}; }
  void split_updates(std::span<const UpdateRows> updates) override {
    pieces_.updates.clear();
    for (const UpdateRows& u : updates) pieces_.updates.emplace_back(u.unit, u.rows);
  }
  Queue& queue(Stream stream) override { return queues_[static_cast<std::size_t>(stream)]; }
  std::unique_ptr<Mark> make_mark() override { return std::make_unique<ReachedMark>(); }

  BackendCounters counters() const override {
    std::int64_t flops = 0;
    for (const CpuQueue& q : queues_) flops += q.gemm_flops();
    return {flops, book_->live, book_->peak};
  }

 private:
  std::shared_ptr<cpu::AllocatedBytes> book_ = std::make_shared<cpu::AllocatedBytes>();
  std::unique_ptr<Memory> table_ = cpu::allocate(sizeof(StepTable), std::make_shared<cpu::AllocatedBytes>()), documents_;
  CpuQueue::Pieces pieces_;
  cpu::Team team_;
  std::vector<CpuQueue> queues_ = std::vector<CpuQueue>(kStreams, CpuQueue(pieces_, team_));
};

}  // namespace

std::unique_ptr<Backend> make_cpu_backend(std::int64_t threads) { return std::make_unique<CpuBackend>(threads); }

std::unique_ptr<Backend> make_eager_cpu_backend(std::int64_t threads) { return std::make_unique<CpuBackend>(threads, 1); }

}  // namespace tandem::exec
