#pragma once
// The products of one queue: planned once a shape, with one workspace.

#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "exec/cuda/cublaslt.hpp"
#include "exec/device/product.hpp"

namespace tandem::exec::cuda {

/// For one thread at a time, and one stream.
class RankProducts {
 public:
  RankProducts(std::shared_ptr<const CublasLt> lt, std::size_t workspace_bytes)
      : lt_(std::move(lt)), workspace_bytes_(workspace_bytes) {}

  /// Enqueues it. The first algorithm that cuBLASLt's heuristic names; a bias is added by a kernel behind it where none adds it itself.
  /// Throws DeviceError where there is no algorithm.
  void run(const device::Product& product, cudaStream_t stream);

 private:
  using Key = std::pair<GemmShape, std::uint32_t>;
  /// nullopt, kept too, where there is no algorithm.
  std::optional<Gemm>& plan(const GemmShape& shape, std::uint32_t alignment);

  std::shared_ptr<const CublasLt> lt_;
  std::size_t workspace_bytes_;
  Buffer workspace_;
  std::map<Key, std::optional<Gemm>> plans_;
};

/// Bytes, at most 256, that divide the address of every matrix of a product: of its batch and of its columns, too.
std::uint32_t alignment_of(const device::Product& product);

}  // namespace tandem::exec::cuda
