#include "exec/cuda/rank_products.hpp"

#include <algorithm>
#include <bit>
#include <string>

#include "exec/cuda/launch.hpp"
#include "exec/device/pointwise.hpp"
#include "models/base/error.hpp"

namespace tandem::exec::cuda {
namespace {

constexpr std::uint64_t kMostAlignment = 256;

/// The largest power of two that divides all of these.
std::uint64_t common(std::initializer_list<std::uint64_t> numbers) {
  std::uint64_t bits = kMostAlignment;
  for (const std::uint64_t n : numbers) bits |= n;
  return bits & (~bits + 1);
}

std::uint64_t alignment_of(const std::byte* data, const Stored& m, DType type) {
  const auto bytes = [&](std::int64_t elements) { return static_cast<std::uint64_t>(bytes_of(type, elements).count()); };
  return common({reinterpret_cast<std::uint64_t>(data), bytes(m.stride)});
}

std::string text(const GemmShape& s) {
  return std::to_string(s.out.cols) + " x " + std::to_string(s.out.rows) + " x " + std::to_string(s.summed()) + " in " +
         std::string(name(s.type)) + " with a result in " + std::string(name(s.result));
}

}  // namespace

std::uint32_t alignment_of(const device::Product& p) {
  const GemmShape& s = p.shape;
  const std::uint64_t all = common({alignment_of(p.first, s.first, s.type), alignment_of(p.second, s.second, s.type),
                                    alignment_of(p.out, s.out, s.result)});
  return static_cast<std::uint32_t>(all);
}

std::optional<Gemm>& RankProducts::plan(const GemmShape& shape, std::uint32_t alignment) {
  const auto [at, added] = plans_.try_emplace({shape, alignment});
  if (added) at->second = Gemm::make(*lt_, shape, {workspace_bytes_, alignment, true});
  return at->second;
}

void RankProducts::run(const device::Product& product, cudaStream_t stream) {
  if (workspace_.size() == 0) workspace_ = Buffer(workspace_bytes_);
  GemmShape shape = product.shape;
  const std::uint32_t alignment = alignment_of(product);
  std::optional<Gemm>* gemm = &plan(shape, alignment);
  const bool bias_behind = !*gemm && shape.bias;
  if (bias_behind) {
    shape.bias = false;
    gemm = &plan(shape, alignment);
  }
  if (!*gemm) throw DeviceError("cuBLASLt has no algorithm for a product of " + text(shape));
  (*gemm)->run({product.first, product.second, product.out, product.vector, workspace_.data(), workspace_.size(), product.alpha},
               stream);
  if (!bias_behind) return;
  const device::Form form = shape.type == DType::fp64 ? device::Form::doubles : device::Form::mixed;
  const device::Typed bias{product.vector, shape.result}, out{product.out, shape.result};
  launch(device::BiasKernel{form, bias, out, shape.out.cols, shape.out.rows}, stream);
}

}  // namespace tandem::exec::cuda
