// Works from gradients to new weights.
#include "exec/device/operands.hpp"

namespace tandem::exec::device {
namespace {

Form numbers(DType compute) { return compute == DType::fp64 ? Form::doubles : Form::mixed; }

}  // namespace

Works works(const GradNorm&, const Operands& at) {
  auto* sum = as<std::int64_t>(at.out(0));
  Works all{Clearing{at.out(0).address, kExactWords * static_cast<std::int64_t>(sizeof(std::int64_t)), std::byte{0}}};
  if (at.around().pieces.count > 0) all.push_back(NormSumKernel{Form::doubles, at.in(0), at.around().pieces, sum});
  all.push_back(CarryKernel{Form::doubles, sum});
  return all;
}

Works works(const ClipCoefficient& op, const Operands& at) {
  return {ClipKernel{Form::doubles, as<const std::int64_t>(at.in(0)), at.table(), op.clip_grad, op.scale.value_or(LossScale{}),
                     op.scale.has_value()}};
}

Works works(const AdamW& op, const Operands& at) {
  if (at.around().pieces.count == 0) return {};
  return {AdamWKernel{numbers(at.compute()), at.in(0), at.out(0), at.out(1), at.out(2), at.out_if(op.master, 3), at.around().pieces, op,
                      at.table(), {at.context().seed, op.stochastic}}};
}

Works works(const Sgd& op, const Operands& at) {
  if (at.around().pieces.count == 0) return {};
  const bool buffered = op.momentum > 0;
  const Typed buffer = at.out_if(buffered, 1), master = at.out_if(op.master, buffered ? 2 : 1);
  return {SgdKernel{numbers(at.compute()), at.in(0), at.out(0), buffer, master, at.around().pieces, op.momentum, op.weight_decay,
                    at.table(), {at.context().seed, op.stochastic}}};
}

}  // namespace tandem::exec::device
