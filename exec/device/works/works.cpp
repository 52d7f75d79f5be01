// Which operations a device supports, and the works of each.
#include <algorithm>
#include <string>

#include "exec/data/random.hpp"
#include "exec/device/works/operands.hpp"

namespace tandem::exec::device {
namespace {

bool is_narrow(DType t) { return t == DType::bf16 || t == DType::fp16; }
bool is_float(DType t) { return t == DType::fp32 || t == DType::tf32; }
bool is_real(DType t) { return t == DType::fp64 || is_float(t) || is_narrow(t); }
bool is_kept(DType t) { return is_real(t) || t == DType::int32 || t == DType::int64; }
bool same(DType a, DType b) { return a == b || (is_float(a) && is_float(b)); }

/// True for the possible result types of a product: its own type, or fp32 for a 16-bit product.
bool is_result(DType compute, DType result) { return same(compute, result) || (is_narrow(compute) && result == DType::fp32); }

std::string in_type(const Op& op, DType t) { return std::string(kind_name(op)) + " in " + std::string(name(t)); }

template <class Op>
constexpr bool kHasWorks = requires(const Op& op, const Operands& at) { works(op, at); };

/// The feature of an operation that its works lack; empty: none.
std::string lacks_chosen(const AttentionDims& d) {
  return d.share == AttentionShare::heads ? "of chosen keys, with heads shared by context ranks" : "";
}
template <class Flash>
std::string lacks_flash(const Flash& op) {
  if (!op.chosen) return "";
  const bool plain = op.ring_step < 0 && !op.alibi && !op.sinks && op.dropout == 0 && op.soft_cap == 0;
  return plain ? lacks_chosen(op.dims) : "of chosen keys with bias, sinks, dropout, a cap or a ring";
}
std::string lacks(const FlashAttention& op) { return lacks_flash(op); }
std::string lacks(const FlashAttentionBackward& op) { return lacks_flash(op); }
std::string lacks(const IndexTarget& op) { return lacks_chosen(op.dims); }
std::string lacks_index(const IndexDims& d) { return d.block > 0 ? "of blocks" : ""; }
std::string lacks(const IndexTopK& op) { return lacks_index(op.dims); }
std::string lacks(const IndexTopKBackward& op) { return lacks_index(op.dims); }
std::string lacks(const Rotary& op) {
  return op.width() > 2 * kMostPairs ? "of heads of more than 512 dimensions" : op.width() % 2 != 0 ? "of heads of an odd length" : "";
}
template <class Norm>
std::string lacks_norm(const Norm& op) {
  return std::max(op.dims.head_dim, op.dims.value_width()) > kMostOfLongHead ? "of heads of more than 1024 dimensions" : "";
}
std::string lacks(const HeadNorm& op) { return lacks_norm(op); }
std::string lacks(const HeadNormBackward& op) { return lacks_norm(op); }
std::string lacks(const Accumulate& a) {
  const bool counts = a.overwrite && a.source == DType::int32 && a.destination == DType::int32;
  return counts || (is_real(a.source) && is_real(a.destination)) ? "" : "between these types";
}
std::string lacks(const Dequantize& op) { return op.source == DType::nf4 ? "" : "of " + std::string(name(op.source)); }
template <class Op>
std::string lacks(const Op&) {
  return "";
}

Answer can_multiply(const Op& op, const OperandTypes& types) {
  const auto* product = std::get_if<MatMul>(&op);
  const auto* grouped = std::get_if<GroupedWeightGrad>(&op);
  const bool indexes = std::holds_alternative<IndexTopK>(op);
  const bool of_two = product != nullptr || grouped != nullptr || indexes || std::holds_alternative<GroupedMatMul>(op);
  for (std::size_t i = 0; i < types.in.size(); ++i) {
    // bias, accumulated result, counts and an indexer's weights may have other types
    const bool whole = !of_two || i < 2;
    const bool rounded = product != nullptr && is_narrow(types.compute) && types.in[i] == DType::fp32;
    if (whole && !rounded && !same(types.in[i], types.compute))
      return {false, in_type(op, types.compute) + " with an operand in " + std::string(name(types.in[i]))};
  }
  if (product != nullptr && product->accumulate && !is_result(types.compute, product->total))
    return {false, in_type(op, types.compute) + " added up in " + std::string(name(product->total))};
  if (grouped != nullptr && grouped->accumulate && !is_result(types.compute, grouped->total))
    return {false, in_type(op, types.compute) + " added up in " + std::string(name(grouped->total))};
  if (!types.out.empty() && !indexes && !is_result(types.compute, types.out[0]))
    return {false, in_type(op, types.compute) + " with a result in " + std::string(name(types.out[0]))};
  return {};
}

bool converts(const Op& op) { return std::holds_alternative<Accumulate>(op) || std::holds_alternative<Fill>(op); }

/// Codes of 4 bits, which only one kernel reads.
bool is_stored(DType t, const Op& op) { return is_kept(t) || (t == DType::nf4 && std::holds_alternative<Dequantize>(op)); }

bool has_partial_master(const Op& op, std::span<const DType> out) {
  const auto last_is_narrow = [&](const auto& o) { return o.master && !out.empty() && is_narrow(out.back()); };
  if (const auto* o = std::get_if<AdamW>(&op)) return last_is_narrow(*o);
  if (const auto* o = std::get_if<Sgd>(&op)) return last_is_narrow(*o);
  if (const auto* o = std::get_if<Muon>(&op)) return last_is_narrow(*o);
  if (const auto* o = std::get_if<LayerwiseApply>(&op)) return last_is_narrow(*o);
  return false;
}

std::string missing(const Op& op) {
  return std::visit(
      [](const auto& o) -> std::string {
        if constexpr (!kHasWorks<std::decay_t<decltype(o)>>) return "at all";
        else return lacks(o);
      },
      op);
}

std::size_t shared_bytes(const Op& op, DType compute);
bool is_product(const Op& op);

}  // namespace

Dropout Operands::dropout(DropoutSite site, double rate) const {
  const KernelContext& c = context();
  return {c.seed, drop_threshold(rate), 1 / (1 - rate), site, c.layer, table()};
}

HiddenRows Operands::rows(std::int64_t local_seq, std::int64_t rows, bool shard) const {
  const KernelContext& c = context();
  return {SequenceMap(c.context_size, local_seq), shard ? c.tensor_rank * rows : 0, c.first_sequence, c.context_rank};
}

bool has_products(const Op& op) {
  return is_product(op) || std::holds_alternative<Muon>(op) || std::holds_alternative<Recurrence>(op) ||
         std::holds_alternative<RecurrenceBackward>(op);
}

namespace {

/// True if an operation consists of products and kernels after them.
bool is_product(const Op& op) {
  return std::holds_alternative<MatMul>(op) || std::holds_alternative<AttentionScores>(op) ||
         std::holds_alternative<AttentionContext>(op) || std::holds_alternative<AttentionContextBackward>(op) ||
         std::holds_alternative<AttentionScoresBackward>(op) ||
         std::holds_alternative<IndexTopK>(op) || std::holds_alternative<GroupedMatMul>(op) ||
         std::holds_alternative<GroupedWeightGrad>(op);
}

}  // namespace

Answer can(const Op& op, const OperandTypes& types, std::size_t most_shared) {
  if (!is_real(types.compute)) return {false, in_type(op, types.compute)};
  if (const std::string what = missing(op); !what.empty())
    return {false, what == "at all" ? std::string(kind_name(op)) : std::string(kind_name(op)) + " " + what};
  for (const auto operands : {types.in, types.out})
    for (const DType t : operands)
      if (!is_stored(t, op) || (types.compute == DType::fp64 && is_narrow(t) && !converts(op)))
        return {false, in_type(op, types.compute) + " with an operand in " + std::string(name(t))};
  if (has_partial_master(op, types.out)) return {false, std::string(kind_name(op)) + " with a master that holds what weights lack"};
  if (shared_bytes(op, types.compute) > most_shared)
    return {false, in_type(op, types.compute) + " with heads that long: " + std::to_string(shared_bytes(op, types.compute)) +
                       " bytes of shared memory are more than this device's " + std::to_string(most_shared)};
  return is_product(op) ? can_multiply(op, types) : Answer{};
}

namespace {

std::size_t shared_bytes(const Op& op, DType compute) {
  const Form form = compute == DType::fp64 ? Form::doubles : Form::mixed;
  if (const auto* o = std::get_if<FlashAttention>(&op); o != nullptr && o->chosen)
    return numbers_bytes(form, o->dims.listed_keys());
  if (const auto* o = std::get_if<FlashAttentionBackward>(&op); o != nullptr && o->chosen)
    return numbers_bytes(form, o->dims.listed_keys());
  if (const auto* o = std::get_if<IndexTopKBackward>(&op)) return numbers_bytes(form, 2 * o->dims.listed());
  if (const auto* o = std::get_if<HeadNormBackward>(&op)) return HeadNormGradKernel::bytes(form, o->dims.head_dim);
  if (const auto* o = std::get_if<Recurrence>(&op)) return scan_shared_bytes(o->dims, compute);
  if (const auto* o = std::get_if<RecurrenceBackward>(&op)) return scan_shared_bytes(o->dims, compute);
  if (const auto* o = std::get_if<FlashAttention>(&op)) return FlashKernel::bytes(form, o->dims.head_dim, o->dims.value_width());
  if (const auto* o = std::get_if<FlashAttentionBackward>(&op))
    return FlashKeyGradKernel::bytes(form, o->dims.head_dim, o->dims.value_width());
  return 0;
}

/// Number of visible (query, key) pairs in all heads, as if sequences were single documents: the host does not read where others begin.
std::int64_t pairs(AttentionPlace p) {
  p.documents = {};
  std::int64_t n = 0;
  for (std::int64_t i = 0; i < p.seq; ++i) n += p.visible(i) - p.first(0, i);
  return n * p.batch * p.heads;
}

}  // namespace

std::int64_t scratch_bytes(const Launch& launch) {
  const Op& op = launch.op;
  if (const auto* o = std::get_if<TopKRouter>(&op)) return chosen_scratch(o->dims);
  if (const auto* o = std::get_if<TopKRouterBackward>(&op))
    return o->routing.expert_scale ? chosen_scratch(o->dims) + o->dims.tokens * o->dims.top_k * 8 : 0;
  if (const auto* o = std::get_if<GroupedMatMul>(&op)) return experts_scratch(*o, launch);
  if (const auto* o = std::get_if<GroupedWeightGrad>(&op)) return experts_scratch(*o, launch);
  if (const auto* o = std::get_if<IndexTopK>(&op)) return index_scratch(*o, launch.compute);
  if (const auto* o = std::get_if<IndexTopKBackward>(&op)) return index_scratch(*o, launch.compute);
  if (const auto* o = std::get_if<Recurrence>(&op)) return recurrence_scratch(*o, launch.compute);
  if (const auto* o = std::get_if<RecurrenceBackward>(&op)) return recurrence_scratch(*o, launch.compute);
  if (const auto* o = std::get_if<ShortConvBackward>(&op)) return recurrence_scratch(*o, launch.compute);
  if (const auto* o = std::get_if<GatedNormBackward>(&op)) return recurrence_scratch(*o);
  if (const auto* o = std::get_if<Muon>(&op)) return muon_scratch(*o);
  if (const auto* o = std::get_if<CrossEntropy>(&op)) return o->dims.rows * static_cast<std::int64_t>(sizeof(double));
  if (const auto* o = std::get_if<EmbeddingBackward>(&op)) return parts(o->vocab_rows * 4, 8) * 8;
  if (const auto* o = std::get_if<BiasGrad>(&op)) return block_sums_scratch(o->blocks, o->rows, o->cols);
  if (const auto* o = std::get_if<MatMul>(&op))
    return sums_scratch(*o) + rounded_scratch(*o, launch) + joined_scratch(*o, launch.compute);
  if (const auto* o = std::get_if<BiasDropoutAddBackward>(&op)) return o->bias ? column_scratch(o->rows, o->cols, 1) : 0;
  if (const auto* o = std::get_if<HeadNormBackward>(&op))
    return o->plain ? 0 : head_norm_scratch(head_rows(*o).count(), o->dims.head_dim);
  if (const auto* o = std::get_if<RowNormBackward>(&op)) return column_scratch(o->rows(), o->weights(), 1);
  if (const auto* o = std::get_if<LatentNormBackward>(&op)) return latent_scratch(*o, launch.in[2].dtype);
  if (const std::int64_t bytes = scores_scratch(launch)) return bytes;
  if (std::holds_alternative<FlashAttention>(op) || std::holds_alternative<FlashAttentionBackward>(op))
    return flash_scratch(launch);
  if (const auto* o = std::get_if<LayerNormBackward>(&op)) return o->part == NormPart::input ? 0 : norm_scratch(o->rows, o->cols);
  return 0;
}

std::vector<Work> works_of(const Launch& launch, const WorkContext& around) {
  if (!is_real(launch.compute)) throw DeviceError("a device cannot run " + in_type(launch.op, launch.compute));
  const Operands at(launch, around);
  return std::visit(
      [&](const auto& o) -> std::vector<Work> {
        if constexpr (requires { chosen_works(o, at); })
          if (o.chosen) return chosen_works(o, at);
        if constexpr (kHasWorks<std::decay_t<decltype(o)>>) return works(o, at);
        else throw DeviceError("a device cannot run " + in_type(launch.op, launch.compute));
      },
      launch.op);
}

// The backward pass recomputes scores and has four more products: probabilities' gradient and three gradients.
std::int64_t product_flops(const Work& work) {
  if (const auto* p = std::get_if<Product>(&work)) return p->counted < 0 ? p->shape.flops() : p->counted;
  if (const auto* f = std::get_if<FlashKernel>(&work)) return 2 * pairs(f->place) * (f->layout.head_dim + f->layout.value_dim);
  if (const auto* f = std::get_if<FlashGradKernels>(&work))
    return 2 * pairs(f->query.place) * (3 * f->query.layout.head_dim + 2 * f->query.layout.value_dim);
  return std::visit(
      [](const auto& w) -> std::int64_t {
        if constexpr (requires { w.flops; }) return w.flops;
        else return 0;
      },
      work);
}

}  // namespace tandem::exec::device
