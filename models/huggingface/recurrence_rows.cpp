#include "models/huggingface/recurrence_rows.hpp"

namespace tandem::huggingface {
namespace {

using Rows = TensorRule::Rows;

/// Sizes of a recurrence's matrices.
struct Sizes {
  std::int64_t keys, key_heads;   ///< width of a key; their number
  std::int64_t values;            ///< width of the values that share a key head
  std::int64_t per_key, heads;    ///< value heads that share a key head; all of them
  std::int64_t mixed() const { return key_heads * (2 * keys + values); }
  std::int64_t all_values() const { return key_heads * values; }
};

Sizes sizes_of(const RecurrenceSpec& r) {
  const std::int64_t per_key = r.heads / r.key_heads;
  return {r.key_dim, r.key_heads, per_key * r.value_dim, per_key, r.heads};
}

/// Queries, keys and values: the file has those of all heads below each other.
void add_mixed(const Sizes& s, RowRun from, std::vector<RowRun>& out) {
  for (std::int64_t g = 0; g < s.key_heads; ++g) {
    const std::int64_t row = from.row + g * (2 * s.keys + s.values), all_keys = s.key_heads * s.keys;
    out.push_back({from.tensor, from.in_tensor + g * s.keys, row, 1, s.keys});
    out.push_back({from.tensor, from.in_tensor + all_keys + g * s.keys, row + s.keys, 1, s.keys});
    out.push_back({from.tensor, from.in_tensor + 2 * all_keys + g * s.values, row + 2 * s.keys, 1, s.values});
  }
}

/// Likewise of Mamba 2, where the file has values, keys (B), queries (C).
void add_mamba(const Sizes& s, RowRun from, std::vector<RowRun>& out) {
  for (std::int64_t g = 0; g < s.key_heads; ++g) {
    const std::int64_t row = from.row + g * (2 * s.keys + s.values), keys = from.in_tensor + s.all_values() + g * s.keys;
    out.push_back({from.tensor, keys + s.key_heads * s.keys, row, 1, s.keys});
    out.push_back({from.tensor, keys, row + s.keys, 1, s.keys});
    out.push_back({from.tensor, from.in_tensor + g * s.values, row + 2 * s.keys, 1, s.values});
  }
}

/// One tensor with gates above these rows, and what forgets below them.
void add_mamba_in(const Sizes& s, const RowRun& from, std::vector<RowRun>& out) {
  out.push_back({from.tensor, from.in_tensor, from.row + s.mixed(), 1, s.all_values()});
  add_mamba(s, {from.tensor, from.in_tensor + s.all_values(), from.row, 1, 0}, out);
  const std::int64_t before = s.all_values() + s.mixed();
  out.push_back({from.tensor, from.in_tensor + before, from.row + before, 1, s.heads});
}

/// Queries, keys, values and gates of each key head in one tensor; what learns and what forgets of its value heads in the other.
void add_heads(const Sizes& s, RowRun from, std::vector<RowRun>& out) {
  const std::int64_t own = 2 * s.keys + s.values, scalars = from.row + s.mixed() + s.all_values();
  for (std::int64_t g = 0; g < s.key_heads; ++g) {
    const std::int64_t at = from.in_tensor + g * (own + s.values), scalar = from.in_tensor + 2 * g * s.per_key;
    out.push_back({from.tensor, at, from.row + g * own, 1, own});
    out.push_back({from.tensor, at + own, from.row + s.mixed() + g * s.values, 1, s.values});
    out.push_back({from.tensor + 1, scalar, scalars + 2 * g * s.per_key + 1, 2, s.per_key});
    out.push_back({from.tensor + 1, scalar + s.per_key, scalars + 2 * g * s.per_key, 2, s.per_key});
  }
}

}  // namespace

bool is_recurrent(Rows rows) {
  switch (rows) {
    case Rows::recurrence: case Rows::recurrence_heads: case Rows::recurrence_conv: return true;
    case Rows::mamba_in: case Rows::mamba_conv: case Rows::mamba_bias: return true;
    default: return false;
  }
}

std::vector<std::int64_t> recurrent_tensors(Rows rows, const RecurrenceSpec& r) {
  if (r.heads == 0) return {};
  const Sizes s = sizes_of(r);
  if (rows == Rows::recurrence_conv || rows == Rows::mamba_conv || rows == Rows::mamba_bias) return {s.mixed()};
  if (rows == Rows::mamba_in) return {s.all_values() + s.mixed() + s.heads};
  if (rows == Rows::recurrence_heads) return {s.mixed() + s.all_values(), 2 * s.heads};
  return {s.mixed(), s.all_values(), s.heads, s.heads};
}

void add_recurrent(Rows rows, const RecurrenceSpec& r, RowRun from, std::vector<RowRun>& out) {
  const Sizes s = sizes_of(r);
  if (rows == Rows::recurrence_heads) return add_heads(s, from, out);
  if (rows == Rows::mamba_in) return add_mamba_in(s, from, out);
  if (rows == Rows::mamba_conv || rows == Rows::mamba_bias) return add_mamba(s, from, out);
  add_mixed(s, from, out);
  if (rows == Rows::recurrence_conv) return;
  const std::int64_t gates = from.row + s.mixed(), scalars = gates + s.all_values();
  out.push_back({from.tensor + 1, from.in_tensor, gates, 1, s.all_values()});
  out.push_back({from.tensor + 2, from.in_tensor, scalars, 2, s.heads});
  out.push_back({from.tensor + 3, from.in_tensor, scalars + 1, 2, s.heads});
}

}  // namespace tandem::huggingface
