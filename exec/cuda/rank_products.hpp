#pragma once
// The products of one queue: planned once a shape, with one workspace.

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

/// What the products of a process share.
struct ProductMeans {
  std::shared_ptr<const CublasLt> lt;
  std::size_t workspace = 0;                        ///< bytes that a product may use
  std::shared_ptr<device::ProductChoices> choices;  ///< of timed algorithms; null: those that the heuristic names first
};

/// For one thread at a time, and one stream. Where cuBLASLt has no kernel that does all of a product at once, kernels behind it do the
/// rest.
class RankProducts {
 public:
  explicit RankProducts(ProductMeans means) : means_(std::move(means)) {}

  /// Plans it, on memory of its own where algorithms are to be timed. Throws DeviceError where there is no algorithm.
  void prepare(const device::Product& product, cudaStream_t stream);
  /// Enqueues it. One that was not prepared is planned without being timed.
  void run(const device::Product& product, cudaStream_t stream);
  std::size_t workspace_bytes() const { return workspace_.size(); }

 private:
  /// The product's kernel does all that is asked for, or what is left when some is done apart.
  enum class Apart : std::uint8_t { nothing, activation, all };
  struct Planned {
    Apart apart;
    Gemm gemm;
  };
  Planned& planned(const device::Product& product, bool timed, cudaStream_t stream);
  std::optional<Planned> plan(const device::Product& product, bool timed, cudaStream_t stream);
  std::optional<Gemm> make(const device::Product& product, bool timed, cudaStream_t stream);
  static std::vector<device::Work> parts(const device::Product& product, Apart apart);
  void run(Gemm& gemm, const device::Product& product, cudaStream_t stream);

  ProductMeans means_;
  Buffer workspace_;
  std::map<device::ProductKey, Planned> plans_;       ///< of what was prepared
  std::map<device::ProductKey, Planned> unforeseen_;  ///< of rows that were counted; forgotten where they are too many
};

/// Alignments: bytes, at most 256, that divide the address of every matrix of a product, of its batch, too; and that of its vector.
device::ProductKey key_of(const device::Product& product);

}  // namespace tandem::exec::cuda
