// Works of LAMB and LANS.
#include "exec/device/works/operands.hpp"

namespace tandem::exec::device {
namespace {

template <class Op>
const Pieces& pieces_within(const Op& op, const Operands& at) {
  const Pieces& pieces = at.around().pieces;
  require(pieces.end <= op.elements, "a parameter lies beyond its buffers");
  require(pieces.parameters <= op.global_parameters, "a parameter's index is beyond the sums");
  return pieces;
}

Form numbers(DType compute) { return compute == DType::fp64 ? Form::doubles : Form::mixed; }

Clearing cleared(std::int64_t* sums, std::int64_t count) {
  return {reinterpret_cast<std::byte*>(sums), count * kExactWords * static_cast<std::int64_t>(sizeof(std::int64_t)), std::byte{0}};
}

/// The fields that follow from an operation and its context. The caller fills in the operands.
template <class Op>
LayerwiseOperands operands(const Op& op, const Operands& at) {
  LayerwiseOperands o{};
  o.form = numbers(at.compute());
  o.kind = op.kind;
  o.gradients = at.in(0);
  o.gradient_sums = op.kind == LayerwiseKind::lans ? as<const std::int64_t>(at.in(4)) : nullptr;
  o.beta1 = op.beta1, o.beta2 = op.beta2, o.epsilon = op.epsilon, o.weight_decay = op.weight_decay;
  o.pieces = pieces_within(op, at);
  o.table = at.table();
  o.random = {at.context().seed, op.stochastic};
  return o;
}

}  // namespace

Works works(const TensorNorms& op, const Operands& at) {
  const Pieces& pieces = pieces_within(op, at);
  auto* sums = as<std::int64_t>(at.out(0));
  Works all{cleared(sums, op.global_parameters)};
  if (pieces.count == 0) return all;
  all.push_back(TensorNormsKernel{numbers(at.compute()), at.in(0), pieces, sums});
  all.push_back(CarrySumsKernel{Form::doubles, sums, op.global_parameters});
  return all;
}

Works works(const LayerwiseMoments& op, const Operands& at) {
  LayerwiseOperands o = operands(op, at);
  (op.master ? o.master : o.weights) = at.in(1);
  o.exp_avg = at.out(0), o.exp_avg_sq = at.out(1), o.sums = as<std::int64_t>(at.out(2));
  Works all{cleared(o.sums, op.global_parameters * op.norms())};
  if (o.pieces.count == 0) return all;
  all.push_back(LayerwiseMomentsKernel{o.form, o});
  all.push_back(CarrySumsKernel{Form::doubles, o.sums, op.global_parameters * op.norms()});
  return all;
}

Works works(const LayerwiseApply& op, const Operands& at) {
  LayerwiseOperands o = operands(op, at);
  if (o.pieces.count == 0) return {};
  o.exp_avg = at.in(1), o.exp_avg_sq = at.in(2), o.sums = as<std::int64_t>(at.in(3));
  o.weights = at.out(0), o.master = at.out_if(op.master, 1);
  return {LayerwiseApplyKernel{o.form, o}};
}

}  // namespace tandem::exec::device
