#pragma once
// Efficiencies of a device, fitted or published: data, read from topology/calibration.

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "models/plan/attention_kernel.hpp"
#include "sim/cost/comm_fit.hpp"

namespace tandem::sim {

/// A tile size that a library cuts products into, and its rate relative to the best one.
struct Tile {
  std::int64_t rows = 0, cols = 0;
  double rate = 1;
};

/// How the time of a matrix product depends on its shape.
struct MatMulFit {
  enum class Model : std::uint8_t {
    flat,     ///< the same share of the peak for every shape
    rounded,  ///< shapes filled up to whole tiles of a systolic array
    tiles,    ///< tiles dealt to compute units in waves
  };
  Model model = Model::flat;
  double ceiling = 1;                    ///< share of the peak that the best shapes reach, in 16-bit and wider types
  double narrow_ceiling = 1;             ///< `ceiling` for types of 8 bits
  double block_ceiling = 1;              ///< `ceiling` for fp8_block
  double fp4_ceiling = 1;                ///< `ceiling` for types of 4 bits
  std::optional<double> vector_ceiling;  ///< `ceiling` for types without a matrix engine; nothing: as `ceiling`
  std::int64_t round_m = 1, round_n = 1, round_k = 1;  ///< `rounded`: m, n and k are rounded up to multiples of these
  double fill_k = 0;                     ///< added to k: the time to fill and drain a tile's pipeline
  double wave_softening = 1;             ///< 1: a partial last wave costs a whole one; 0: only its part
  std::vector<Tile> tiles;
  std::vector<std::int64_t> split_k;     ///< numbers of parts that k may be cut into to fill the compute units
  double sum_exposed = 1;                ///< share of the time to read and write an accumulated result that nothing hides
  std::int64_t alignment_bytes = 0;      ///< rows that are no multiple of it are slow; 0: no such rule
  double unaligned_share = 1;            ///< share of its rate that such a product reaches; batches have the vector rate
};

/// Flash attention. Its share of the peak grows with the keys that a query sees. It is lower if there are few tiles of query rows
/// for each compute unit.
struct FlashFit {
  double forward_share = 1, backward_share = 1;  ///< of the compute type's peak; own kernel: of the vector rate
  double half_keys = 0;                          ///< with so many keys half of the share is reached
  double tile_rows = 128;                        ///< query rows of one tile
  double fill = 0;                               ///< time is multiplied by 1 + fill * compute units / tiles
  double dropout_factor = 1;                     ///< ratio of the time with dropout to that without: the kernel draws random bits
  double deterministic_factor = 1;               ///< ratio of a deterministic backward pass's time to any other's
  /// Blocks that a compute unit runs at once in a deterministic backward pass, if it cuts heads to fill all units. 0: it does not.
  double ordered_blocks = 0;
  double head_64_factor = 1;  ///< ratio of a FLOP's time with heads of 64 to that with 128; between linear in 1 / head_dim
  std::vector<std::int64_t> head_dims;  ///< sizes with a kernel, ascending; other heads use the next larger; empty: all have one
};

struct Calibration {
  MatMulFit matmul;
  std::array<std::optional<FlashFit>, 5> flash;  ///< by AttentionKernel; nothing: as matrix products of its shapes
  std::optional<FlashFit> deterministic_dropout_flash;  ///< the kernel for both at once, if the others cannot do that
  double spread = 0;                     ///< relative standard deviation of arithmetic times among devices of this kind
  double memory_share = 1;               ///< share of the memory bandwidth that streaming operations reach
  double stream_factor = 1;              ///< factor on the time of activation kernels' bytes at that rate
  double cast_bytes = 0;                 ///< bytes moved to cast an element for a product in 8 or 4 bits; 0: nothing is cast
  Duration kernel;                       ///< fixed device time of one kernel
  std::optional<Duration> launch;        ///< host time to launch one operation in frameworks; nothing: Device::host_launch
  CommFit comm;
  std::string caveat;                    ///< what a comparison with other devices should know; empty: nothing
  std::vector<std::string> unverified;

  std::optional<FlashFit>& attention(AttentionKernel k) { return flash[static_cast<std::size_t>(k)]; }
  const std::optional<FlashFit>& attention(AttentionKernel k) const { return flash[static_cast<std::size_t>(k)]; }
};

/// Reads topology/calibration/<name>.json, or a file if `name` is a path; neutral values if `name` is empty. Throws ConfigError if
/// the file is missing or a value is wrong.
Calibration load_calibration(const std::string& name);

}  // namespace tandem::sim
