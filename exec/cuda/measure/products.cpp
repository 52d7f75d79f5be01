#include "exec/cuda/measure/products.hpp"

#include <chrono>

#include "exec/cuda/kernels.hpp"
#include "exec/cuda/measure/product_shapes.hpp"

namespace tandem::exec::cuda {
namespace {

constexpr std::size_t kVector = std::size_t{4} << 20;  // of the longest bias, in bytes

std::size_t bytes_of_span(const Stored& m, std::int64_t batch, DType t) {
  return static_cast<std::size_t>(bytes_of(t, m.span(batch)).count());
}

Element element(DType t) {
  switch (t) {
    case DType::bf16: return Element::bf16;
    case DType::fp16: return Element::fp16;
    case DType::fp8: return Element::fp8;
    default: return Element::fp32;
  }
}

}  // namespace

ProductTimer::ProductTimer(const CublasLt& lt, Bench& bench, std::size_t workspace_bytes)
    : lt_(lt), bench_(bench), workspace_(workspace_bytes), vector_(kVector), one_(sizeof(float)) {
  const float one = 1;
  check(cudaMemcpy(one_.data(), &one, sizeof one, cudaMemcpyHostToDevice), "copying to the device");
  check(cudaMemset(vector_.data(), 0, kVector), "clearing memory");
}

void ProductTimer::fill(DType dtype) {
  if (filled_ == dtype) return;
  const auto n = static_cast<std::int64_t>(bench_.inputs.size() * 8 / static_cast<std::size_t>(bits(dtype)));
  fill_random(bench_.inputs.data(), n, element(dtype), false, bench_.stream);
  filled_ = dtype;
}

bool ProductTimer::fits(const GemmShape& g) const {
  return bench_.inputs.holds(bytes_of_span(g.first, g.batch, g.type)) &&
         bench_.inputs.holds(bytes_of_span(g.second, g.batch, g.type)) &&
         bench_.outputs.holds(bytes_of_span(g.out, g.batch, g.result)) &&
         static_cast<std::size_t>(bytes_of(g.result, g.bias ? g.out.rows : g.out.cols).count()) <= kVector;
}

std::optional<std::vector<ProductTimer::Call>> ProductTimer::prepare(const Op& op, DType dtype) {
  std::vector<Call> calls;
  for (GemmShape& g : products_of(op, dtype)) {
    g.scale = reinterpret_cast<const float*>(one_.data());
    if (!fits(g)) return std::nullopt;
    auto gemm = Gemm::make(lt_, g, {workspace_.size()});
    if (!gemm) return std::nullopt;
    calls.push_back({std::move(*gemm), g});
  }
  if (calls.empty()) return std::nullopt;
  fill(dtype);
  return calls;
}

void ProductTimer::run(std::vector<Call>& calls) {
  for (Call& c : calls) {
    const auto& g = c.shape;
    const auto input = [&](const Stored& m) { return bench_.inputs.next(bytes_of_span(m, g.batch, g.type)); };
    const auto output = [&] { return bench_.outputs.next(bytes_of_span(g.out, g.batch, g.result)); };
    c.gemm.run({input(g.first), input(g.second), output(), vector_.data(), workspace_.data(), workspace_.size(), 1,
                g.activation == ProductActivation::none ? nullptr : output()},
               bench_.stream);
  }
}

std::optional<double> ProductTimer::seconds(const Op& op, DType dtype, double busy_s) {
  auto calls = prepare(op, dtype);
  if (!calls) return std::nullopt;
  return bench_.stopwatch.seconds([&] { run(*calls); }, busy_s);
}

std::optional<double> ProductTimer::sustained(const Op& op, DType dtype, double before_s, double busy_s) {
  auto calls = prepare(op, dtype);
  if (!calls) return std::nullopt;
  return bench_.stopwatch.sustained([&] { run(*calls); }, before_s, busy_s);
}

double ProductTimer::host_seconds() {
  constexpr int kCalls = 200;
  auto calls = prepare(MatMul{512, 512, 512, false, true}, DType::bf16);
  if (!calls) throw DeviceError("cuBLASLt has no algorithm for a product of 512 x 512 bf16 matrices");
  run(*calls);
  bench_.stream.wait();
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < kCalls; ++i) run(*calls);
  const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - begin;
  bench_.stream.wait();
  return passed.count() / kCalls;
}

}  // namespace tandem::exec::cuda
