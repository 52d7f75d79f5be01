// Works of mixture-of-experts layers.
#include <algorithm>
#include <bit>

#include "exec/device/works/operands.hpp"

namespace tandem::exec::device {
namespace {

const std::int32_t* integers(const Typed& t) { return as<const std::int32_t>(t); }

ChoiceRows choice_rows(const MoeDims& d, const Operands& at, std::size_t slots) {
  return {integers(at.in(slots)), d, d.rows(), at.around().fault};
}

/// The experts' learned scales, the last operand from index `first` on; missing if there are none.
Typed scales_of(const RouterRule& rule, const Operands& at, std::size_t first) {
  return at.in_if(rule.expert_scale, first + (rule.bias ? 1 : 0));
}

/// With a capacity, unused rows must be 0. Without one, no product reads them.
Works cleared_rows(const MoeDims& d, const Typed& rows) {
  if (d.capacity == 0) return {};
  return {Clearing{rows.address, bytes_of(rows.type, d.rows() * d.hidden).count(), std::byte{0}}};
}

/// A batch of row-major matrices [rows, cols], in cuBLAS's terms.
Stored stored(std::int64_t rows, std::int64_t cols, bool transposed) { return {cols, rows, cols, rows * cols, transposed}; }

std::byte* moved(const Typed& t, std::int64_t elements) { return t.address + bytes_of(t.type, elements).count(); }

/// A single matrix.
Stored alone(std::int64_t rows, std::int64_t cols, bool transposed) { return {cols, rows, cols, 0, transposed}; }

/// Row counts per expert and source rank, known on the host. A rank's rows follow those of the rank before.
class KnownRows {
 public:
  template <class Op>
  KnownRows(const Op& op, const Launch& launch) : experts_(op.experts), counted_(op.ragged) {
    const std::int64_t parts = op.ragged ? op.groups * op.experts : op.groups;
    if (!op.ragged) rows_.assign(static_cast<std::size_t>(parts), op.m);
    else if (launch.rows.empty()) rows_.assign(static_cast<std::size_t>(parts), op.m / parts);
    else rows_.assign(launch.rows.begin(), launch.rows.end());
    require(std::ssize(rows_) == parts, "not one number of rows for each expert and rank");
    for (const std::int64_t rows : rows_) {
      require(rows >= 0, "an expert with fewer rows than none");
      first_.push_back(all_);
      all_ += rows;
    }
    require(!op.ragged || launch.rows.empty() || op.groups > 1 || all_ == op.m, "the experts' rows are not all the rows there are");
  }
  std::int64_t ranks() const { return std::ssize(rows_) / experts_; }
  std::int64_t all() const { return all_; }
  std::int64_t rows(std::int64_t rank, std::int64_t expert) const { return rows_[part(rank, expert)]; }
  std::int64_t first(std::int64_t rank, std::int64_t expert) const { return first_[part(rank, expert)]; }
  /// Number of an expert's rows from all ranks.
  std::int64_t of(std::int64_t expert) const {
    std::int64_t sum = 0;
    for (std::int64_t r = 0; r < ranks(); ++r) sum += rows(r, expert);
    return sum;
  }
  /// The ranks that sent rows to an expert.
  std::vector<std::int64_t> sources(std::int64_t expert) const {
    std::vector<std::int64_t> all;
    for (std::int64_t r = 0; r < ranks(); ++r)
      if (rows(r, expert) > 0) all.push_back(r);
    return all;
  }
  std::int64_t most_of_part() const { return *std::max_element(rows_.begin(), rows_.end()); }
  /// Rows to allocate for one expert. Rounded up, so that memory does not grow in every step.
  std::int64_t capacity() const {
    std::int64_t most = 0;
    for (std::int64_t e = 0; e < experts_; ++e) most = std::max(most, of(e));
    return counted_ ? static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(most))) : most;
  }

 private:
  std::size_t part(std::int64_t rank, std::int64_t expert) const { return static_cast<std::size_t>(rank * experts_ + expert); }

  std::int64_t experts_, all_ = 0;
  bool counted_;
  std::vector<std::int64_t> rows_, first_;
};

template <class Op>
ExpertRows rows_of(const Op& op, const Operands& at, std::size_t counts) {
  return {op.ragged ? integers(at.in(counts)) : nullptr, op.groups, op.experts, op.m};
}

}  // namespace

Works works(const TopKRouter& op, const Operands& at) {
  const MoeDims& d = op.dims;
  require(d.top_k >= 1 && d.top_k <= d.experts, "more choices than experts");
  const Typed logits = at.in(0), probs = at.out(0);
  auto* chosen = reinterpret_cast<std::int32_t*>(at.around().scratch);
  auto *slots = as<std::int32_t>(at.out(2)), *counts = as<std::int32_t>(at.out(3));
  const Form form = at.form({logits, probs});
  const std::int64_t tokens = routed_tokens(form, d.experts, routed_rows(op.routing, 1));
  return {RouterKernel{form, logits, at.in_if(op.routing.bias, 1), probs, at.out(1), chosen, d, op.routing, tokens,
                       scales_of(op.routing, at, 1)},
          ChoiceCountsKernel{Form::doubles, chosen, counts, d.tokens * d.top_k, d.experts},
          SlotsKernel{Form::doubles, chosen, counts, slots, d}};
}

Works works(const TopKRouterBackward& op, const Operands& at) {
  const MoeDims& d = op.dims;
  const Typed probs = at.in(1), logits = at.in(5), dlogits = at.out(0);
  const double factor = op.aux_loss * static_cast<double>(d.experts) / static_cast<double>(d.tokens * op.micro_batches);
  const Form form = at.form({probs, logits, dlogits});
  RouterGradKernel kernel{form, at.in(0), probs, at.in_if(op.routing.bias, 6), dlogits, integers(at.in(4)), d, op.routing, factor,
                          at.table(), routed_tokens(form, d.experts, routed_rows(op.routing, 2))};
  kernel.logits = logits;
  kernel.z_factor = 2 * op.z_loss / static_cast<double>(d.tokens * op.micro_batches);
  if (!op.routing.expert_scale) return {kernel};
  std::byte* const scratch = at.around().scratch;
  const bool doubles = at.compute() == DType::fp64;
  kernel.scales = scales_of(op.routing, at, 6);
  kernel.chosen = reinterpret_cast<std::int32_t*>(scratch);
  kernel.added = {scratch + chosen_scratch(d), doubles ? DType::fp64 : DType::fp32};
  const ScaleGradKernel numbers{doubles ? Form::doubles : Form::floats, kernel.chosen, kernel.added, at.out(1), d.tokens * d.top_k,
                                d.experts};
  return {kernel, numbers};
}

Works works(const BalanceGrad& op, const Operands& at) {
  const MoeDims& d = op.dims;
  const Typed gradient = at.out(0);
  return {BalanceGradKernel{at.form({gradient}), integers(at.in(0)), gradient, d.experts, d.tokens * d.top_k, op.scale()}};
}

Works works(const ExpertSlots& op, const Operands& at) {
  auto *placed = as<std::int32_t>(at.out(0)), *here = as<std::int32_t>(at.out(1));
  return {ExpertSlotsKernel{Form::doubles, integers(at.in(0)), integers(at.in(1)), placed, here, op.dims, op.members,
                            at.context().expert_rank * op.dims.here, op.dims.rows(), at.around().fault}};
}

Works works(const MoeDispatch& op, const Operands& at) {
  const Typed x = at.in(0), rows = at.out(0);
  Works all = cleared_rows(op.dims, rows);
  all.push_back(DispatchKernel{at.form({x, rows}), x, at.in_if(op.weighted, 2), rows, choice_rows(op.dims, at, 1)});
  return all;
}

Works works(const MoeDispatchBackward& op, const Operands& at) {
  const Typed drows = at.in(0), dx = at.out(0);
  Works all{CombineKernel{at.form({drows, dx}), drows, at.in_if(op.weighted, 3), dx, choice_rows(op.dims, at, 1)}};
  if (!op.weighted) return all;
  const Typed x = at.in(2);
  all.push_back(CombineGradKernel{at.form({x, drows}), x, drows, {}, {}, at.out(1), choice_rows(op.dims, at, 1)});
  return all;
}

Works works(const MoeCombine& op, const Operands& at) {
  const Typed rows = at.in(0), y = at.out(0);
  return {CombineKernel{at.form({rows, y}), rows, at.in_if(op.weighted, 2), y, choice_rows(op.dims, at, 1)}};
}

Works works(const MoeCombineBackward& op, const Operands& at) {
  const Typed dy = at.in(0), drows = at.out(0);
  Works all = cleared_rows(op.dims, drows);
  if (!op.weighted) {
    all.push_back(DispatchKernel{at.form({dy, drows}), dy, {}, drows, choice_rows(op.dims, at, 1)});
    return all;
  }
  const Typed rows = at.in(1);
  all.push_back(CombineGradKernel{at.form({dy, rows, drows}), dy, rows, at.in(3), drows, at.out(1), choice_rows(op.dims, at, 2)});
  return all;
}

namespace {

/// Products with fewer rows wait for loading their expert's matrix: r rows make r FLOPs per byte in 16 bits. An H100 makes 295 in
/// the time of loading one (990 TFLOP/s, 3.35 TB/s: NVIDIA, H100 datasheet). So rows of several ranks are joined.
constexpr std::int64_t kFewRows = 256;

bool joins(const GroupedMatMul& op) { return op.ragged && op.groups > 1 && op.m / (op.groups * op.experts) < kFewRows; }
bool joins(const GroupedWeightGrad& op) { return op.ragged ? op.groups > 1 : op.groups > op.experts; }

/// Scratch memory for one expert's rows: `first` with its columns, then `second` with its own.
struct JoinedRows {
  Typed first, second;
};

template <class Op>
std::int64_t joined_bytes(const Op& op, const Launch& launch, DType first, std::int64_t first_cols, DType second,
                          std::int64_t second_cols) {
  if (!joins(op)) return 0;
  const std::int64_t rows = KnownRows(op, launch).capacity();
  return padded_bytes(first, rows * first_cols) + padded_bytes(second, rows * second_cols);
}

JoinedRows joined(const Operands& at, std::int64_t rows, DType first, std::int64_t first_cols, DType second) {
  std::byte* const scratch = at.around().scratch;
  return {{scratch, first}, {scratch + padded_bytes(first, rows * first_cols), second}};
}

/// Makes the kernel that joins an expert's rows or moves them back.
template <class Op>
JoinRowsKernel join(const Op& op, const Operands& at, const KnownRows& known, const JoinRowsKernel& kernel) {
  JoinRowsKernel k = kernel;
  k.form = at.form({k.joined});
  k.experts = rows_of(op, at, 2);
  k.blocks_of_part = std::max<std::int64_t>(1, parts(known.most_of_part() * k.cols, kChunk));
  return k;
}

}  // namespace

std::int64_t experts_scratch(const GroupedMatMul& op, const Launch& launch) {
  return joined_bytes(op, launch, launch.in[0].dtype, op.k, launch.out[0].dtype, op.n);
}

std::int64_t experts_scratch(const GroupedWeightGrad& op, const Launch& launch) {
  return joined_bytes(op, launch, launch.in[0].dtype, op.n, launch.in[1].dtype, op.k);
}

std::int64_t most_rows(const Launch& launch) {
  if (const auto* o = std::get_if<GroupedMatMul>(&launch.op)) return launch.in[0].elements / o->k;
  return launch.in[0].elements / std::get<GroupedWeightGrad>(launch.op).n;
}

Op of_one_expert(const Op& op, std::int64_t rows) {
  Op one = op;
  const auto reduce = [&](auto& o) { o.groups = o.experts = 1, o.m = rows; };
  if (auto* o = std::get_if<GroupedMatMul>(&one)) reduce(*o);
  else reduce(std::get<GroupedWeightGrad>(one));
  return one;
}

// One expert has the most rows if it has all of them.
std::int64_t most_scratch_bytes(const Launch& launch) {
  const auto most = [&](const auto& o) {
    if (o.groups == 1) return std::int64_t{0};  // rows of one rank are not joined
    std::vector<std::int32_t> rows(static_cast<std::size_t>(o.groups * o.experts), 0);
    rows.front() = static_cast<std::int32_t>(most_rows(launch));
    return experts_scratch(o, {launch.op, launch.compute, launch.in, launch.out, launch.context, rows});
  };
  if (const auto* o = std::get_if<GroupedMatMul>(&launch.op)) return most(*o);
  return most(std::get<GroupedWeightGrad>(launch.op));
}

// Row-major C = A op(B) is column-major C^T = op(B)^T A^T, so B comes first. A batch covers the experts, once per source rank.
// Counted rows have one product per expert, or per expert and source rank.
Works works(const GroupedMatMul& op, const Operands& at) {
  const Typed a = at.in(0), b = at.in(1), c = at.out(0);
  Works all;
  if (!op.ragged) {
    const Stored weights = op.trans_b ? stored(op.n, op.k, true) : stored(op.k, op.n, false);
    const GemmShape shape{weights, stored(op.m, op.k, false), stored(op.m, op.n, false), op.experts, at.compute(), c.type};
    for (std::int64_t row = 0; row < op.rows(); row += op.experts * op.m)
      all.push_back(Product{shape, b.address, moved(a, row * op.k), moved(c, row * op.n)});
    return all;
  }
  require(!at.launch().rows.empty(), "products of experts whose rows nobody has counted");
  const KnownRows known(op, at.launch());
  const auto product = [&](std::int64_t expert, std::int64_t rows, const std::byte* from, std::byte* to) {
    const Stored weight = op.trans_b ? alone(op.n, op.k, true) : alone(op.k, op.n, false);
    const GemmShape shape{weight, alone(rows, op.k, false), alone(rows, op.n, false), 1, at.compute(), c.type};
    all.push_back(Product{shape, moved(b, expert * op.k * op.n), from, to});
  };
  for (std::int64_t e = 0; e < op.experts; ++e) {
    const auto sources = known.sources(e);
    if (!joins(op) || sources.size() < 2) {
      for (const std::int64_t r : sources)
        product(e, known.rows(r, e), moved(a, known.first(r, e) * op.k), moved(c, known.first(r, e) * op.n));
      continue;
    }
    const JoinedRows copies = joined(at, known.capacity(), a.type, op.k, c.type);
    all.push_back(join(op, at, known, {Form::mixed, a, copies.first, {}, e, op.k, 1, false}));
    product(e, known.of(e), copies.first.address, copies.second.address);
    all.push_back(join(op, at, known, {Form::mixed, c, copies.second, {}, e, op.n, 1, true}));
  }
  return all;
}

// The sum over the rows of all ranks is one product, so that it is rounded once.
Works works(const GroupedWeightGrad& op, const Operands& at) {
  const Typed dy = at.in(0), x = at.in(1), dw = at.out(0);
  if (!op.ragged && op.groups == op.experts) {
    GemmShape shape{stored(op.m, op.k, false), stored(op.m, op.n, true), stored(op.n, op.k, false), op.experts, at.compute(),
                    dw.type};
    shape.accumulate = op.accumulate;
    return {Product{shape, x.address, dy.address, dw.address}};
  }
  require(!op.ragged || !at.launch().rows.empty(), "products of experts whose rows nobody has counted");
  const KnownRows known(op, at.launch());
  const std::int64_t elements = op.n * op.k;
  Works all;
  for (std::int64_t e = 0; e < op.experts; ++e) {
    const auto sources = known.sources(e);
    std::byte* const to = moved(dw, e * elements);
    if (sources.empty() && !op.accumulate) all.push_back(Clearing{to, bytes_of(dw.type, elements).count(), std::byte{0}});
    if (sources.empty()) continue;
    const std::int64_t rows = known.of(e);
    GemmShape shape{alone(rows, op.k, false), alone(rows, op.n, true), alone(op.n, op.k, false), 1, at.compute(), dw.type};
    shape.accumulate = op.accumulate;
    if (sources.size() == 1) {
      const std::int64_t row = known.first(sources[0], e);
      all.push_back(Product{shape, moved(x, row * op.k), moved(dy, row * op.n), to});
      continue;
    }
    const JoinedRows copies = joined(at, known.capacity(), dy.type, op.n, x.type);
    all.push_back(join(op, at, known, {Form::mixed, dy, copies.first, {}, e, op.n, 1, false}));
    all.push_back(join(op, at, known, {Form::mixed, x, copies.second, {}, e, op.k, 1, false}));
    all.push_back(Product{shape, copies.second.address, copies.first.address, to});
  }
  return all;
}

Works works(const GroupedBias& op, const Operands& at) {
  if (op.once && at.context().expert_tensor_rank != 0) return {};
  const Typed x = at.out(0);
  const ExpertRows rows = rows_of(op, at, 2);
  const std::int64_t parts = op.ragged ? op.groups * op.experts : op.groups;
  return {ExpertBiasKernel{at.form({x}), x, at.in(1), rows, op.n, std::max<std::int64_t>(1, op.rows() / parts)}};
}

Works works(const GroupedBiasGrad& op, const Operands& at) {
  const Typed dy = at.in(0);
  return {ExpertBiasGradKernel{at.form({dy}), dy, at.out(0), rows_of(op, at, 1), op.n}};
}

}  // namespace tandem::exec::device
