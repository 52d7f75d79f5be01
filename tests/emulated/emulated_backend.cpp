#include "tests/emulated/emulated_backend.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <deque>
#include <vector>

#include "exec/backend/forwarding_backend.hpp"
#include "exec/cpu/backend.hpp"
#include "exec/device/fault_text.hpp"
#include "exec/device/works/product_parts.hpp"
#include "exec/device/piece_ranges.hpp"
#include "exec/device/works/work.hpp"
#include "tests/emulated/performed.hpp"

namespace tandem::tests {
namespace {

namespace device = exec::device;

template <class Kernel>
void perform(const Kernel& kernel) {
  perform_kernel(kernel);
}

void perform(const device::FlashGradKernels& both) { perform(both.query), perform(both.key); }

void perform(const device::Clearing& c) {
  if (c.bytes > 0) std::memset(c.address, std::to_integer<int>(c.value), static_cast<std::size_t>(c.bytes));
}

/// A product in fp64, or one that is complete in fp32 before anything is added.
double rounded(double product, DType type) {
  return type == DType::fp64 ? product : static_cast<double>(static_cast<float>(product));
}

/// As tensor cores read fp32 numbers: 10 of 23 bits of the mantissa, rounded to nearest even.
double in_tf32(double value) {
  const auto bits = std::bit_cast<std::uint32_t>(static_cast<float>(value));
  return static_cast<double>(std::bit_cast<float>((bits + 0xfff + (bits >> 13 & 1)) & ~std::uint32_t{0x1fff}));
}

/// Element (row, col) of op(m), in a batch.
double element(const std::byte* data, const device::Stored& m, DType type, std::array<std::int64_t, 3> at) {
  const auto [batch, row, col] = at;
  const std::int64_t r = m.transposed ? col : row, c = m.transposed ? row : col;
  const double value = device::load<double>({const_cast<std::byte*>(data), type}, batch * m.stride + c * m.ld + r);
  return type == DType::tf32 && std::isfinite(value) ? in_tf32(value) : value;
}

void perform(const device::Product& p);

void perform_all(const std::vector<device::Work>& works) {
  for (const device::Work& work : works) std::visit([](const auto& w) { perform(w); }, work);
}

/// Sums are rounded once: a device adds in an order of its own. A bias is added before the result is rounded, as cuBLASLt does; what
/// else its kernels do is done behind it.
void perform(const device::Product& p) {
  const device::GemmShape& s = p.shape;
  if (s.activation != ProductActivation::none) return perform_all(device::activation_apart(p));
  if (s.sums) return perform_all(device::all_apart(p));
  const device::Typed out{p.out, s.result}, bias{p.vector, s.result};
  const double alpha = rounded(p.alpha, s.type);  // cuBLASLt takes it in the arithmetic's type
  for (std::int64_t b = 0; b < s.batch; ++b)
    for (std::int64_t c = 0; c < s.out.cols; ++c)
      for (std::int64_t r = 0; r < s.out.rows; ++r) {
        double sum = 0;
        for (std::int64_t k = 0; k < s.summed(); ++k)
          sum += element(p.first, s.first, s.type, {b, r, k}) * element(p.second, s.second, s.type, {b, k, c});
        const std::int64_t at = b * s.out.stride + c * s.out.ld + r;
        double value = rounded(alpha * sum, s.type);
        if (s.accumulate) value += device::load<double>(out, at);
        if (s.bias) value += device::load<double>(bias, r);
        device::store(out, at, value);
      }
}

class EmulatedQueue final : public exec::ForwardingQueue {
 public:
  EmulatedQueue(exec::Queue& inner, const exec::PieceForms<device::Pieces>& pieces) : ForwardingQueue(inner), pieces_(pieces) {}

  void run(const exec::Launch& launch) override {
    if (std::holds_alternative<HostCopy>(launch.op)) return inner().run(launch);  // the device's memory is the host's
    const std::vector<DType> none;
    if (const auto answer = device::can(launch.op, {launch.compute, none, none}, kMostShared); !answer.possible)
      throw DeviceError("the emulated backend cannot run " + answer.reason);
    if (const auto counts = exec::counted_rows(launch.op); counts && launch.rows.empty()) {
      exec::Launch known = launch;
      const exec::Tensor& t = launch.in[*counts];
      known.rows = {reinterpret_cast<const std::int32_t*>(t.address), static_cast<std::size_t>(t.elements)};
      return run(known);
    }
    device::Fault fault;
    const std::int64_t bytes = device::scratch_bytes(launch);
    most_scratch_ = std::max(most_scratch_, bytes);
    std::vector<double> scratch(static_cast<std::size_t>(bytes) / sizeof(double) + 1);
    const device::WorkContext around{pieces_.of(launch), &fault, reinterpret_cast<std::byte*>(scratch.data())};
    for (const device::Work& work : device::works_of(launch, around)) {
      std::visit([](const auto& w) { perform(w); }, work);
      flops_ += device::product_flops(work);
    }
    device::throw_of(fault);
  }
  std::int64_t flops() const { return flops_; }
  /// Scratch memory of the operation that took most.
  std::int64_t most_scratch() const { return most_scratch_; }

 private:
  const exec::PieceForms<device::Pieces>& pieces_;
  std::int64_t flops_ = 0, most_scratch_ = 0;
};

class EmulatedBackend final : public exec::ForwardingBackend {
 public:
  EmulatedBackend() : ForwardingBackend(exec::make_cpu_backend()) {
    for (std::size_t s = 0; s < kStreams; ++s) queues_.emplace_back(inner().queue(static_cast<Stream>(s)), pieces_);
  }
  std::string_view name() const override { return "emulated"; }
  bool needs_rows() const override { return true; }
  exec::Answer supports(const Op& op, const exec::OperandTypes& types) const override {
    if (std::holds_alternative<HostCopy>(op)) return {};
    return device::can(op, types, kMostShared);
  }
  void load_pieces(std::span<const exec::PieceRow> rows) override {
    kept_.clear();
    pieces_ = {pieces_of(rows), {}};
  }
  void split_updates(std::span<const exec::UpdateRows> updates) override {
    pieces_.updates.clear();
    for (const exec::UpdateRows& u : updates) pieces_.updates.emplace_back(u.unit, pieces_of(u.rows));
  }
  exec::Queue& queue(Stream stream) override { return queues_[static_cast<std::size_t>(stream)]; }
  exec::BackendCounters counters() const override {
    exec::BackendCounters all = ForwardingBackend::counters();
    all.gemm_flops = 0;
    for (const EmulatedQueue& q : queues_) all.gemm_flops += q.flops(), all.workspace_bytes += q.most_scratch();
    return all;
  }

 private:
  struct Kept {
    std::vector<exec::PieceRow> rows;
    std::vector<device::PieceRange> ranges;
  };
  device::Pieces pieces_of(std::span<const exec::PieceRow> rows) {
    const Kept& k = kept_.emplace_back(Kept{{rows.begin(), rows.end()}, device::piece_ranges(rows)});
    return {k.rows.data(), k.ranges.data(), static_cast<std::int64_t>(k.ranges.size()), device::end_of_states(rows),
            device::end_of_parameters(rows), device::end_of_squares(rows), k.rows};
  }

  std::deque<Kept> kept_;
  exec::PieceForms<device::Pieces> pieces_;
  std::vector<EmulatedQueue> queues_;
};

}  // namespace

std::unique_ptr<exec::Backend> make_emulated_backend() { return std::make_unique<EmulatedBackend>(); }

}  // namespace tandem::tests
