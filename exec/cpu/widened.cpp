#include "exec/cpu/widened.hpp"

#include <algorithm>
#include <limits>

#include "exec/cpu/gemm/gemm.hpp"
#include "exec/cpu/narrow_values.hpp"
#include "exec/cpu/scratch.hpp"

namespace tandem::exec::cpu {
namespace {

constexpr std::size_t kNone = std::numeric_limits<std::size_t>::max();
constexpr std::size_t kLine = 16;  // floats per cache line; copies are aligned to it

std::size_t rounded(std::int64_t elements) { return (static_cast<std::size_t>(elements) + kLine - 1) / kLine * kLine; }

float* scratch(std::size_t elements) {
  thread_local GrowingScratch<float> mine;
  return mine.at_least(static_cast<std::int64_t>(elements));
}

/// True if an operation writes every element of its outputs without reading any, unless it is also an input. False is always safe.
bool writes_all(const Op& op) {
  return std::visit(overloaded{
                        [](const MatMul& o) { return !o.accumulate; },
                        [](const Dequantize&) { return true; },
                        [](const BiasGrad&) { return true; },
                        [](const LayerNorm&) { return true; },
                        [](const LayerNormBackward&) { return true; },
                        [](const Pointwise&) { return true; },
                        [](const PointwiseBackward&) { return true; },
                        [](const GatedPointwise&) { return true; },
                        [](const GatedPointwiseBackward& o) { return o.part == GatePart::whole; },
                        [](const Elementwise&) { return true; },
                        [](const AttentionScores&) { return true; },
                        [](const AttentionSoftmax&) { return true; },
                        [](const AttentionContext&) { return true; },
                        [](const AttentionSoftmaxBackward&) { return true; },
                        [](const IndexTarget&) { return true; },
                        [](const IndexTopKBackward&) { return true; },
                        [](const BiasDropoutAdd&) { return true; },
                        [](const BiasDropoutAddBackward&) { return true; },
                        [](const BiasDropoutAddNorm&) { return true; },
                        [](const CrossEntropy&) { return true; },
                        [](const Accumulate& o) { return o.overwrite; },
                        [](const auto&) { return false; },
                    },
                    op);
}

/// True for products whose kernels accept factors of either type.
bool multiplies_factors(const Op& op) {
  return std::visit(overloaded{
                        [](const MatMul&) { return true; },
                        [](const GroupedMatMul&) { return true; },
                        [](const GroupedWeightGrad&) { return true; },
                        [](const auto&) { return false; },
                    },
                    op);
}

}  // namespace

bool takes_bf16_factors(const Launch& launch) {
  const auto is_bf16 = [&](std::size_t i) { return launch.in[i].dtype == DType::bf16; };
  return multiplies_factors(launch.op) && is_bf16(0) && is_bf16(1) && cpu::multiplies_bf16();
}

Widened::Widened(const Launch& launch, Team& team) : team_(team) {
  find_copies(launch.in, takes_bf16_factors(launch) ? 2 : 0, in_);
  find_copies(launch.out, 0, out_);
  for (const std::size_t c : in_.copies)
    if (c != kNone) copies_[c].read = true;
  const bool whole = writes_all(launch.op);
  for (const std::size_t c : out_.copies) {
    if (c == kNone) continue;
    copies_[c].written = true;
    copies_[c].read = copies_[c].read || !whole;
  }
  place();
}

void Widened::find_copies(std::span<const Tensor> of, std::size_t first, Operands& to) {
  to.tensors.assign(of.begin(), of.end());
  to.copies.assign(of.size(), kNone);
  for (std::size_t i = first; i < of.size(); ++i)
    if (is_narrow(of[i].dtype)) to.copies[i] = copy_of(of[i]);
}

std::size_t Widened::copy_of(const Tensor& t) {
  for (std::size_t i = 0; i < copies_.size(); ++i) {
    if (copies_[i].narrow.address != t.address) continue;
    copies_[i].narrow.elements = std::max(copies_[i].narrow.elements, t.elements);
    return i;
  }
  copies_.push_back({t, nullptr, false, false});
  return copies_.size() - 1;
}

void Widened::place() {
  std::size_t all = 0;
  for (const Copy& c : copies_) all += rounded(c.narrow.elements);
  float* at = scratch(all);
  for (Copy& c : copies_) {
    c.wide = at;
    at += rounded(c.narrow.elements);
    if (c.read) widen(c);
  }
  for (Operands* o : {&in_, &out_})
    for (std::size_t i = 0; i < o->tensors.size(); ++i) {
      if (o->copies[i] == kNone) continue;
      o->tensors[i].address = reinterpret_cast<std::byte*>(copies_[o->copies[i]].wide);
      o->tensors[i].dtype = DType::fp32;
    }
}

void Widened::widen(const Copy& c) const {
  team_.split(c.narrow.elements, team_.element_grain(),
              [&](std::int64_t first, std::int64_t end) { cpu::widen(c.narrow, first, end - first, c.wide + first); });
}

void Widened::narrow(const Copy& c) const {
  team_.split(c.narrow.elements, team_.element_grain(),
              [&](std::int64_t first, std::int64_t end) { cpu::narrow(c.wide + first, c.narrow, first, end - first); });
}

void Widened::settle(std::size_t i) const {
  if (out_.copies[i] == kNone) return;
  const Copy& c = copies_[out_.copies[i]];
  narrow(c);
  widen(c);
}

void Widened::put() const {
  for (const Copy& c : copies_)
    if (c.written) narrow(c);
}

}  // namespace tandem::exec::cpu
