#include "models/huggingface/row_order.hpp"

#include <numeric>

#include "models/huggingface/recurrence_rows.hpp"

namespace tandem::huggingface {
namespace {

using Rows = TensorRule::Rows;

/// `count` rows that follow each other in the parameter and in the tensor. `from` says where they begin.
void add_plain(RowRun from, std::int64_t count, std::vector<RowRun>& out) {
  from.count = count;
  if (count > 0) out.push_back(from);
}

/// `rows` rows: the file has the two of a pair side by side, the plan has the firsts of all pairs, then the seconds.
void add_pairs(RowRun from, std::int64_t rows, std::vector<RowRun>& out) {
  for (std::int64_t i = 0; i < rows / 2; ++i) out.push_back({from.tensor, from.in_tensor + 2 * i, from.row + i, rows / 2, 2});
}

}  // namespace

/// Number of parts that alternate: as many as tensors, or the two that are in one.
std::int64_t RowOrder::parts() const {
  const auto n = static_cast<std::int64_t>(rule_.of.size());
  return rule_.rows == Rows::alternating && n == 1 ? 2 : n;
}

/// Rows of a group's queries, key and value.
std::vector<std::int64_t> RowOrder::group() const {
  const AttentionHeads& h = sizes_.heads;
  return {h.queries / h.keys * h.head_dim, h.head_dim, h.value_dim};
}

std::optional<std::vector<std::int64_t>> RowOrder::tensors() const {
  const auto n = static_cast<std::int64_t>(rule_.of.size());
  const AttentionHeads& h = sizes_.heads;
  if (rule_.rows == Rows::latent_queries || rule_.rows == Rows::latent_keys) {
    const std::int64_t wanted = rule_.rows == Rows::latent_queries ? h.queries * h.head_dim : sizes_.rank + sizes_.rotary;
    return sizes_.rank > 0 && rows_ == wanted ? std::optional(std::vector{rows_}) : std::nullopt;
  }
  if (rule_.rows == Rows::gated_groups || is_recurrent(rule_.rows)) {
    const std::vector<std::int64_t> all = is_recurrent(rule_.rows)
                                              ? recurrent_tensors(rule_.rows, sizes_.recurrence)
                                              : std::vector{2 * h.queries * h.head_dim, h.keys * h.head_dim, h.keys * h.value_dim};
    const bool fits = std::accumulate(all.begin(), all.end(), std::int64_t{0}) == rows_ && !h.tied && h.head_dim == h.value_dim;
    return fits ? std::optional(all) : std::nullopt;
  }
  if (rule_.rows == Rows::halves && rows_ % 2 != 0) return std::nullopt;
  if (rule_.shift > rows_) return std::nullopt;
  if (rule_.rows == Rows::heads) {
    const std::vector all{h.keys * h.head_dim, h.keys * h.value_dim};
    return all[0] + all[1] == rows_ ? std::optional(all) : std::nullopt;
  }
  if (rule_.rows != Rows::groups)
    return rows_ % parts() == 0 ? std::optional(std::vector<std::int64_t>(rule_.of.size(), rows_ / n)) : std::nullopt;
  const std::vector<std::int64_t> of = group();
  if (h.tied || (of[0] + of[1] + of[2]) * h.keys != rows_) return std::nullopt;
  if (n == 1) return std::vector{rows_};
  return std::vector{of[0] * h.keys, of[1] * h.keys, of[2] * h.keys};
}

void RowOrder::add_runs(std::size_t first, std::int64_t row, std::int64_t in_tensor, std::vector<RowRun>& out) const {
  const RowRun from{first, in_tensor, row, 1, 0};
  switch (rule_.rows) {
    case Rows::plain: return add_shifted(from, out);
    case Rows::alternating: return add_alternating(from, out);
    case Rows::groups: return add_groups(from, out);
    case Rows::gated_groups: return add_gated(from, out);
    case Rows::recurrence: case Rows::recurrence_heads: case Rows::recurrence_conv:
    case Rows::mamba_in: case Rows::mamba_conv: case Rows::mamba_bias:
      return add_recurrent(rule_.rows, sizes_.recurrence, from, out);
    case Rows::halves: return add_pairs(from, rows_, out);
    case Rows::latent_queries: case Rows::latent_keys: return add_latent(from, out);
    case Rows::heads: return add_heads(from, out);
  }
}

void RowOrder::add_shifted(RowRun from, std::vector<RowRun>& out) const {
  const std::int64_t first = rows_ - rule_.shift;
  add_plain({from.tensor, from.in_tensor + rule_.shift, from.row, 1, 0}, first, out);
  add_plain({from.tensor, from.in_tensor, from.row + first, 1, 0}, rule_.shift, out);
}

void RowOrder::add_alternating(RowRun from, std::vector<RowRun>& out) const {
  const std::int64_t n = parts(), count = rows_ / n;
  for (std::int64_t i = 0; i < n; ++i) {
    out.push_back({from.tensor, from.in_tensor, from.row + i, n, count});
    if (rule_.of.size() > 1) ++from.tensor;
    else from.in_tensor += count;
  }
}

void RowOrder::add_groups(RowRun from, std::vector<RowRun>& out) const {
  const std::vector<std::int64_t> of = group();
  const std::int64_t rotary = rule_.interleaved ? sizes_.rotary : 0, dim = sizes_.heads.head_dim;
  const bool one = rule_.of.size() == 1;
  for (std::int64_t g = 0; g < sizes_.heads.keys; ++g) {
    std::int64_t above = from.in_tensor;  // rows of other parts above this one, if all are in one tensor
    for (std::size_t part = 0; part < of.size(); ++part) {
      RowRun at{from.tensor + (one ? 0 : part), (one ? above : from.in_tensor) + g * of[part], from.row, 1, 0};
      const std::int64_t heads = rotary > 0 && part < 2 ? of[part] / dim : 0;
      for (std::int64_t h = 0; h < heads; ++h, at.in_tensor += dim, at.row += dim) {
        add_pairs(at, rotary, out);
        add_plain({at.tensor, at.in_tensor + rotary, at.row + rotary, 1, 0}, dim - rotary, out);
      }
      if (heads == 0) add_plain(at, of[part], out);
      from.row += of[part];
      above += of[part] * sizes_.heads.keys;
    }
  }
}

void RowOrder::add_heads(RowRun from, std::vector<RowRun>& out) const {
  const std::int64_t of[] = {sizes_.heads.head_dim, sizes_.heads.value_dim};
  for (std::int64_t h = 0; h < sizes_.heads.keys; ++h)
    for (std::size_t part = 0; part < 2; ++part) {
      add_plain({from.tensor + part, from.in_tensor + h * of[part], from.row, 1, 0}, of[part], out);
      from.row += of[part];
    }
}

void RowOrder::add_gated(RowRun from, std::vector<RowRun>& out) const {
  const std::int64_t dim = sizes_.heads.head_dim, keys = sizes_.heads.keys, of_group = sizes_.heads.queries / keys;
  const std::int64_t first = from.row + sizes_.heads.queries * dim, rows = (of_group + 2) * dim;
  for (std::int64_t h = 0; h < sizes_.heads.queries; ++h) {
    const std::int64_t query = from.in_tensor + 2 * h * dim;
    add_plain({from.tensor, query, first + h / of_group * rows + h % of_group * dim, 1, 0}, dim, out);
    add_plain({from.tensor, query + dim, from.row + h * dim, 1, 0}, dim, out);
  }
  for (std::int64_t g = 0; g < keys; ++g) {
    const std::int64_t row = first + g * rows + of_group * dim, in_tensor = from.in_tensor + g * dim;
    add_plain({from.tensor + 1, in_tensor, row, 1, 0}, dim, out);
    add_plain({from.tensor + 2, in_tensor, row + dim, 1, 0}, dim, out);
  }
}

void RowOrder::add_latent(RowRun from, std::vector<RowRun>& out) const {
  const std::int64_t rotary = sizes_.rotary;
  if (rule_.rows == Rows::latent_keys) {
    add_plain(from, sizes_.rank, out);
    return add_pairs({from.tensor, from.in_tensor + sizes_.rank, from.row + sizes_.rank, 1, 0}, rotary, out);
  }
  const std::int64_t dim = sizes_.heads.head_dim;
  for (std::int64_t h = 0; h < sizes_.heads.queries; ++h, from.in_tensor += dim, from.row += dim) {
    add_plain({from.tensor, from.in_tensor, from.row + rotary, 1, 0}, dim - rotary, out);
    add_pairs({from.tensor, from.in_tensor + dim - rotary, from.row, 1, 0}, rotary, out);
  }
}

}  // namespace tandem::huggingface
