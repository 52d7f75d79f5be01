#include "exec/state/block.hpp"

namespace tandem::exec {
namespace {

/// Local elements [first, first + count) of a parameter. `at`: index of the first one in a buffer.
struct FlatRange {
  const Param* param;
  std::int64_t first, count, at;
};

/// Splits a range into blocks: the rest of its first row, whole rows, the beginning of its last row.
void add_blocks(const FlatRange& s, const RankState& rank, std::vector<HeldBlock>& out) {
  const Param& p = *s.param;
  const ShareMap map = share_map(p, rank);
  for (std::int64_t i = s.first; i < s.first + s.count;) {
    const std::int64_t whole = map.full_index(i), left = s.first + s.count - i, in_row = i % p.cols;
    Block b{whole / p.full_cols, whole % p.full_cols, 1, std::min(left, p.cols - in_row)};
    if (in_row == 0 && left >= p.cols) b.rows = std::min(left / p.cols, map.rows_below(i));
    out.push_back({&p, b, s.at + i - s.first});
    i += b.elements();
  }
}

/// Second moments, which Muon's parameters lack.
constexpr std::string_view kSquares = "exp_avg_sq";
bool lacks(const ParamPiece& p, std::string_view name) { return name == kSquares && p.param->matrices.any(); }

FlatRange flat_range(const ParamPiece& p, std::string_view name) {
  const std::int64_t state = name == kSquares ? p.state - p.unsquared : p.state;
  return {p.param, p.first, p.count, name == "gradients" ? p.gradient : name == "weights" ? p.weight : state};
}

}  // namespace

std::vector<Block> parts_of(const Block& block, std::int64_t most) {
  std::vector<Block> parts;
  const std::int64_t at_once = std::max<std::int64_t>(1, most / std::max<std::int64_t>(1, block.cols));
  for (std::int64_t row = 0; row < block.rows; row += at_once)
    parts.push_back({block.row + row, block.col, std::min(at_once, block.rows - row), block.cols});
  return parts;
}

std::vector<HeldBlock> held_blocks(const RankState& rank, std::string_view name) {
  std::vector<HeldBlock> blocks;
  if (name == "weights" && !rank.program->weights_sharded) {
    for (const Param& p : rank.program->params) add_blocks({&p, 0, p.used(rank.seat.share_of(p)), p.offset}, rank, blocks);
    return blocks;
  }
  for (const ParamPiece& p : param_pieces(*rank.program, rank.seat, name == "weights"))
    if (!lacks(p, name)) add_blocks(flat_range(p, name), rank, blocks);
  return blocks;
}

std::vector<HeldBlock> counted_blocks(const RankState& rank, std::string_view name) {
  ShardCoords seat = rank.seat;
  seat.norm_over_world = true;
  std::vector<HeldBlock> blocks;
  for (const ParamPiece& p : param_pieces(*rank.program, seat, name == "weights"))
    if (p.counted && !lacks(p, name)) add_blocks(flat_range(p, name), rank, blocks);
  return blocks;
}

}  // namespace tandem::exec
