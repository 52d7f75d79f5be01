#pragma once
// Efficiencies of a device, as fitted or published: data, read from topology/calibration.

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "models/plan/attention_kernel.hpp"
#include "sim/cost/comm_fit.hpp"

namespace tandem::sim {

/// One way a library cuts a product into pieces, and the rate it reaches relative to the best one.
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
  double ceiling = 1;                    ///< share of the peak that the best shapes reach
  double narrow_ceiling = 1;             ///< the same in types of 8 bits
  double block_ceiling = 1;              ///< the same in fp8_block
  double fp4_ceiling = 1;                ///< the same in types of 4 bits
  std::optional<double> vector_ceiling;  ///< the same in types that the matrix engine has not; nothing: as `ceiling`
  std::int64_t round_m = 1, round_n = 1, round_k = 1;
  double fill_k = 0;                     ///< a tile costs as if k were so much larger
  double wave_softening = 1;             ///< 1: a part of a wave costs a whole one; 0: only its part
  std::vector<Tile> tiles;
  std::vector<std::int64_t> split_k;     ///< into how many parts k may be cut to fill the compute units
  double sum_exposed = 1;                ///< of the time to read and write what a product adds to: not hidden by its arithmetic
  std::int64_t alignment_bytes = 0;      ///< rows of a product should be a multiple; 0: no such rule
  double unaligned_share = 1;            ///< of its rate with such rows that a product reaches otherwise; batches of them have the vector rate
};

/// Attention without a score matrix: a share of the peak that grows with the keys a query sees and falls while there are fewer
/// tiles of query rows than compute units.
struct FlashFit {
  double forward_share = 1, backward_share = 1;  ///< of the peak of the activations' type; of the own kernel's law: of the vector rate
  double half_keys = 0;                          ///< half of it is reached with so many keys
  double tile_rows = 128;                        ///< query rows of one tile
  double fill = 0;                               ///< time grows by fill * units / tiles
  double dropout_factor = 1;                     ///< time with dropout, whose random bits the kernel makes, by that without
  double deterministic_factor = 1;               ///< time of a backward pass that gives the same bits again, by that of any
  /// Of such a pass, blocks that a compute unit has at once where heads are cut into as many as fill the units; 0: they are not.
  double ordered_blocks = 0;
  double head_64_factor = 1;  ///< time of a FLOP with heads of 64 by that with 128; between them linear in 1 / head_dim
  std::vector<std::int64_t> head_dims;  ///< sizes that there are kernels for, ascending: other heads take the next one; empty: all
};

struct Calibration {
  MatMulFit matmul;
  std::array<std::optional<FlashFit>, 5> flash;  ///< by AttentionKernel; nothing: as products of its shapes
  std::optional<FlashFit> deterministic_dropout_flash;  ///< where neither is deterministic with dropout, by one that is
  double spread = 0;                     ///< standard deviation of the times of arithmetic among devices of this kind, as a share
  double memory_share = 1;               ///< of the memory bandwidth that streaming operations reach
  double stream_factor = 1;              ///< what memory-bound kernels take beside their bytes at that rate, as a factor
  double cast_bytes = 0;                 ///< moved for an element that a product in 8 or 4 bits has cast; 0: no device casts
  Duration kernel;                       ///< fixed device time of one kernel
  std::optional<Duration> launch;        ///< host time of one task as frameworks reach it; nothing: the device's own fact
  CommFit comm;
  std::vector<std::string> unverified;

  std::optional<FlashFit>& attention(AttentionKernel k) { return flash[static_cast<std::size_t>(k)]; }
  const std::optional<FlashFit>& attention(AttentionKernel k) const { return flash[static_cast<std::size_t>(k)]; }
};

/// Reads topology/calibration/<name>.json, or a file when `name` is a path; a neutral one when `name` is empty. Throws
/// ConfigError.
Calibration load_calibration(const std::string& name);

}  // namespace tandem::sim
