// The reference backend: every computation in fp32 and fp64, one thread a rank.
#include <string>
#include <string_view>
#include <variant>

#include "exec/cpu/kernels.hpp"
#include "exec/cpu/memory.hpp"

namespace tandem::exec {
namespace {

bool is_native(DType t) { return t == DType::fp32 || t == DType::fp64; }
/// Numbers of rows are copied too.
bool is_count_copy(const Accumulate& a) { return a.overwrite && a.source == DType::int32 && a.destination == DType::int32; }

bool has_kernel(const Op& op) {
  return std::visit(overloaded{
                        [](const Collective&) { return false; },
                        [](const Send&) { return false; },
                        [](const Recv&) { return false; },
                        [](const HostCopy&) { return false; },
                        [](const MatMul& o) { return !o.accumulate || is_native(o.total); },
                        [](const GroupedWeightGrad& o) { return !o.accumulate || is_native(o.total); },
                        [](const Accumulate& a) { return (is_native(a.source) && is_native(a.destination)) || is_count_copy(a); },
                        [](const AdamW& a) { return !a.master; },
                        [](const Sgd& a) { return !a.master; },
                        [](const LayerwiseMoments& a) { return !a.master; },
                        [](const LayerwiseApply& a) { return !a.master; },
                        [](const auto&) { return true; },
                    },
                    op);
}

class CpuBackend final : public Backend {
 public:
  std::string_view name() const override { return "cpu"; }
  bool supports(const Op& op, DType dtype) const override { return is_native(dtype) && has_kernel(op); }

  std::unique_ptr<Memory> allocate(std::size_t bytes) override { return cpu::allocate(bytes, book_); }

  void run(const Op& op, DType dtype, std::span<const std::byte* const> inputs, std::span<std::byte* const> outputs,
           const KernelContext& context) override {
    if (!supports(op, dtype)) refuse(op, dtype);
    cpu::Call call(inputs, outputs, context, gemm_flops_);
    if (dtype == DType::fp32)
      compute<float>(op, call);
    else
      compute<double>(op, call);
  }

  BackendCounters counters() const override { return {gemm_flops_, book_->live, book_->peak}; }

 private:
  template <class T>
  static void compute(const Op& op, cpu::Call& call) {
    std::visit([&](const auto& o) { cpu::compute<T>(o, call); }, op);
  }

  [[noreturn]] static void refuse(const Op& op, DType dtype) {
    throw DeviceError("the CPU backend cannot run " + std::string(kind_name(op)) + " in " +
                      std::string(tandem::name(dtype)));
  }

  std::int64_t gemm_flops_ = 0;
  std::shared_ptr<cpu::MemoryBook> book_ = std::make_shared<cpu::MemoryBook>();
};

}  // namespace

std::unique_ptr<Backend> make_cpu_backend() { return std::make_unique<CpuBackend>(); }

}  // namespace tandem::exec
