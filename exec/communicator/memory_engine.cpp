#include "exec/communicator/memory_engine.hpp"

#include <algorithm>
#include <array>
#include <cstring>

#include "models/base/narrow.hpp"

namespace tandem::exec {
namespace {

constexpr std::int64_t kPiece = 1024;  // elements summed at a time, so that they stay in the cache

/// Storage type of an element and the type it is summed in. 16-bit types are summed in fp32, so that a fold is rounded once.
template <class T>
struct Plain {
  using Stored = T;
  using Sum = T;
  static T load(T v) { return v; }
  static T store(T v) { return v; }
};
struct Bf16 {
  using Stored = std::uint16_t;
  using Sum = float;
  static float load(std::uint16_t v) { return from_bf16(v); }
  static std::uint16_t store(float v) { return to_bf16(v); }
};
struct Fp16 {
  using Stored = std::uint16_t;
  using Sum = float;
  static float load(std::uint16_t v) { return from_fp16(v); }
  static std::uint16_t store(float v) { return to_fp16(v); }
};

template <class Format>
void combine(Reduce reduce, std::span<typename Format::Sum> into, const typename Format::Stored* from) {
  if (reduce == Reduce::sum)
    for (std::size_t i = 0; i < into.size(); ++i) into[i] += Format::load(from[i]);
  else
    for (std::size_t i = 0; i < into.size(); ++i) into[i] = into[i] < Format::load(from[i]) ? Format::load(from[i]) : into[i];
}

template <class Format>
void fold_piece(const Fold& f, std::int64_t begin, std::int64_t end) {
  using Stored = typename Format::Stored;
  std::array<typename Format::Sum, kPiece> sums;
  const std::span<typename Format::Sum> sum(sums.data(), static_cast<std::size_t>(end - begin));
  const auto given = [&](std::size_t j) { return reinterpret_cast<const Stored*>(f.in[j]) + begin; };
  std::transform(given(0), given(0) + sum.size(), sum.begin(), Format::load);
  for (std::size_t j = 1; j < f.in.size(); ++j) combine<Format>(f.reduce, sum, given(j));
  for (std::byte* out : f.out)
    std::transform(sum.begin(), sum.end(), reinterpret_cast<Stored*>(out) + f.to + begin - f.begin, Format::store);
}

template <class Format>
void fold_pieces(const Fold& f) {
  for (auto at = f.begin; at < f.end; at += kPiece) fold_piece<Format>(f, at, std::min(at + kPiece, f.end));
}

class HostEngine final : public MemoryEngine {
 public:
  void copy(std::byte* to, const std::byte* from, std::int64_t bytes) override {
    if (bytes > 0 && to != from) std::memcpy(to, from, static_cast<std::size_t>(bytes));
  }
  void fold(const Fold& f) override {
    switch (f.type) {
      case DType::fp64: fold_pieces<Plain<double>>(f); break;
      case DType::bf16: fold_pieces<Bf16>(f); break;
      case DType::fp16: fold_pieces<Fp16>(f); break;
      case DType::int32: fold_pieces<Plain<std::int32_t>>(f); break;
      case DType::int64: fold_pieces<Plain<std::int64_t>>(f); break;
      default: fold_pieces<Plain<float>>(f);
    }
  }
  void finish() override {}
};

}  // namespace

MemoryEngine& host_engine() {
  static HostEngine engine;
  return engine;
}

}  // namespace tandem::exec
