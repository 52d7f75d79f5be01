#include "exec/cuda/rank_products.hpp"

#include <algorithm>
#include <initializer_list>
#include <string>
#include <type_traits>
#include <variant>

#include "exec/cuda/algorithm_timer.hpp"
#include "exec/cuda/launch.hpp"
#include "exec/device/works/product_parts.hpp"
#include "models/base/error.hpp"

namespace tandem::exec::cuda {
namespace {

constexpr std::uint64_t kMostAlignment = 256;
constexpr std::size_t kMostUnforeseen = 1 << 14;  // plans of about 1 KiB each

/// The largest power of two that divides all numbers, at most kMostAlignment.
std::uint64_t common(std::initializer_list<std::uint64_t> numbers) {
  std::uint64_t bits = kMostAlignment;
  for (const std::uint64_t n : numbers) bits |= n;
  return bits & (~bits + 1);
}

std::uint64_t address(const std::byte* data) { return reinterpret_cast<std::uint64_t>(data); }

std::uint64_t alignment_of(const std::byte* data, const Stored& m, DType type) {
  return common({address(data), static_cast<std::uint64_t>(bytes_of(type, m.stride).count())});
}

std::string text(const GemmShape& s) {
  return std::to_string(s.out.cols) + " x " + std::to_string(s.out.rows) + " x " + std::to_string(s.summed()) + " in " +
         std::string(name(s.type)) + " with a result in " + std::string(name(s.result));
}

/// Launches the separate kernels after a product.
struct Launcher {
  cudaStream_t stream;

  void operator()(const device::PointwiseKernel& k) const { launch(k, stream); }
  void operator()(const device::BiasKernel& k) const { launch(k, stream); }
  void operator()(const device::ColumnSumsKernel& k) const { launch(k, stream); }
  void operator()(const device::ColumnFoldKernel& k) const { launch(k, stream); }
  void operator()(const auto&) const { throw ContractError("a part of a product that is no kernel of this list"); }
};

}  // namespace

device::ProductKey key_of(const device::Product& p) {
  const GemmShape& s = p.shape;
  const std::uint64_t all = common({alignment_of(p.first, s.first, s.type), alignment_of(p.second, s.second, s.type),
                                    alignment_of(p.out, s.out, s.result), address(p.beside)});
  return {s, static_cast<std::uint32_t>(all), static_cast<std::uint32_t>(common({address(p.vector)}))};
}

std::vector<device::Work> RankProducts::parts(const device::Product& product, Apart apart) {
  switch (apart) {
    case Apart::nothing: return {product};
    case Apart::activation: return device::activation_apart(product);
    case Apart::all: return device::all_apart(product);
  }
  return {};
}

std::optional<Gemm> RankProducts::make(const device::Product& product, bool timed, cudaStream_t stream) {
  const device::ProductKey key = key_of(product);
  auto gemm = Gemm::make(*means_.lt, key.shape, {means_.workspace, key.alignment, key.vector_alignment, true});
  if (!gemm || !means_.choices) return gemm;
  const auto kept = means_.choices->find(key);
  const auto algorithm = kept ? algorithm_of(kept->algorithm) : std::nullopt;
  if ((algorithm && gemm->use(*algorithm)) || !timed) return gemm;
  if (const auto seconds = use_fastest(*gemm, key, {workspace_.data(), workspace_.size()}, stream))
    means_.choices->keep(key, {text_of(gemm->algorithm()), *seconds});
  return gemm;
}

std::optional<RankProducts::Planned> RankProducts::plan(const device::Product& product, bool timed, cudaStream_t stream) {
  const GemmShape& s = product.shape;
  for (const Apart apart : {Apart::nothing, Apart::activation, Apart::all}) {
    if (apart == Apart::activation && s.activation == ProductActivation::none) continue;
    if (apart == Apart::all && !s.does_more()) continue;
    const auto works = parts(product, apart);
    if (auto gemm = make(std::get<device::Product>(works.front()), timed, stream)) return Planned{apart, std::move(*gemm)};
  }
  return std::nullopt;
}

RankProducts::Planned* RankProducts::find(const device::ProductKey& key) {
  for (auto* plans : {&plans_, &unforeseen_})
    if (const auto found = plans->find(key); found != plans->end()) return &found->second;
  return nullptr;
}

RankProducts::Planned& RankProducts::add(std::map<device::ProductKey, Planned>& plans, const device::Product& product, bool timed,
                                         cudaStream_t stream) {
  if (workspace_.size() == 0) workspace_ = Buffer(means_.workspace);
  auto made = plan(product, timed, stream);
  if (!made) throw DeviceError("cuBLASLt has no algorithm for a product of " + text(product.shape));
  if (unforeseen_.size() >= kMostUnforeseen) unforeseen_.clear();
  return plans.emplace(key_of(product), std::move(*made)).first->second;
}

void RankProducts::prepare(const device::Product& product, bool counted, cudaStream_t stream) {
  if (find(key_of(product)) != nullptr) return;
  Planned& made = add(counted ? unforeseen_ : plans_, product, !counted, stream);
  const auto works = parts(product, made.apart);
  load_kernel(made.gemm, std::get<device::Product>(works.front()).shape, {workspace_.data(), workspace_.size()}, stream);
}

void RankProducts::run(const device::Product& product, cudaStream_t stream) {
  Planned* const known = find(key_of(product));
  Planned& how = known != nullptr ? *known : add(unforeseen_, product, false, stream);
  if (how.apart == Apart::nothing) return run(how.gemm, product, stream);
  const auto works = parts(product, how.apart);
  run(how.gemm, std::get<device::Product>(works.front()), stream);
  for (std::size_t i = 1; i < works.size(); ++i) std::visit(Launcher{stream}, works[i]);
}

void RankProducts::run(Gemm& gemm, const device::Product& p, cudaStream_t stream) {
  gemm.run({p.first, p.second, p.out, p.vector, workspace_.data(), workspace_.size(), p.alpha, p.beside}, stream);
}

}  // namespace tandem::exec::cuda
