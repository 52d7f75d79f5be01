#pragma once
// The matrix products of one queue. Each shape is planned once; all share a workspace.

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "exec/cuda/cublaslt.hpp"
#include "exec/device/product_choices.hpp"
#include "exec/device/works/work.hpp"

namespace tandem::exec::cuda {

/// State shared by the products of all ranks of a process.
struct ProductMeans {
  std::shared_ptr<const CublasLt> lt;
  std::size_t workspace = 0;                        ///< workspace limit in bytes
  std::shared_ptr<device::ProductChoices> choices;  ///< choices of timed algorithms; null: use the heuristic's first one
};

/// For one thread and one stream. If cuBLASLt has no kernel for
/// the whole product, separate kernels after it perform the rest.
class RankProducts {
 public:
  explicit RankProducts(ProductMeans means) : means_(std::move(means)) {}

  /// Plans a product and performs it once, on memory of its own. If algorithms are to be timed, times them, unless the product only
  /// stands for others with as many rows or more (`counted`). Throws DeviceError if there is no algorithm.
  void prepare(const device::Product& product, bool counted, cudaStream_t stream);
  /// Enqueues a product. One that was not prepared is planned without timing.
  void run(const device::Product& product, cudaStream_t stream);
  std::size_t workspace_bytes() const { return workspace_.size(); }

 private:
  /// Which part of a product runs in separate kernels after cuBLASLt's: nothing, the activation, or everything besides the product.
  enum class Apart : std::uint8_t { nothing, activation, all };
  struct Planned {
    Apart apart;
    Gemm gemm;
  };
  Planned* find(const device::ProductKey& key);
  Planned& add(std::map<device::ProductKey, Planned>& plans, const device::Product& product, bool timed, cudaStream_t stream);
  std::optional<Planned> plan(const device::Product& product, bool timed, cudaStream_t stream);
  std::optional<Gemm> make(const device::Product& product, bool timed, cudaStream_t stream);
  static std::vector<device::Work> parts(const device::Product& product, Apart apart);
  void run(Gemm& gemm, const device::Product& product, cudaStream_t stream);

  ProductMeans means_;
  Buffer workspace_;
  std::map<device::ProductKey, Planned> plans_;       ///< of prepared products
  std::map<device::ProductKey, Planned> unforeseen_;  ///< of products with counted rows; cleared when there are too many
};

/// A product's key. Alignments are in bytes, at most 256: what divides the address of every matrix (and batch), and of the vector.
device::ProductKey key_of(const device::Product& product);

}  // namespace tandem::exec::cuda
