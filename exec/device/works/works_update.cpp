// Works of optimizer updates.
#include "exec/device/works/operands.hpp"

namespace tandem::exec::device {
namespace {

/// The rank's pieces. Checks that they lie inside the operation's elements.
const Pieces& pieces_within(std::int64_t elements, const Operands& at) {
  const Pieces& pieces = at.around().pieces;
  require(pieces.end <= elements, "a parameter lies beyond what the rank updates");
  return pieces;
}

}  // namespace

Works works(const GradNorm& op, const Operands& at) {
  const Pieces& pieces = pieces_within(op.elements, at);
  auto* sum = as<std::int64_t>(at.out(0));
  Works all{Clearing{at.out(0).address, kExactWords * static_cast<std::int64_t>(sizeof(std::int64_t)), std::byte{0}}};
  if (pieces.count > 0) all.push_back(NormSumKernel{Form::doubles, at.in(0), pieces, sum});
  all.push_back(CarryKernel{Form::doubles, sum});
  return all;
}

Works works(const ClipCoefficient& op, const Operands& at) {
  return {ClipKernel{Form::doubles, as<const std::int64_t>(at.in(0)), at.table(), op.clip_grad, op.scale.value_or(LossScale{}),
                     op.scale.has_value()}};
}

Works works(const AdamW& op, const Operands& at) {
  const Pieces& pieces = at.around().pieces;
  require(pieces.squares_end <= op.elements, "a parameter lies beyond what the rank updates");
  if (pieces.count == 0) return {};
  const Typed master = at.out_if(op.master, 3);
  const Typed gradients = at.in(0), weights = at.out(0), first = at.out(1), second = at.out(2);
  const Form form = at.form({gradients, first, second, op.master ? master : weights});
  return {AdamWKernel{form, gradients, weights, first, second, master, pieces, op, at.table(), {at.context().seed, op.stochastic}}};
}

Works works(const Sgd& op, const Operands& at) {
  const Pieces& pieces = pieces_within(op.elements, at);
  if (pieces.count == 0) return {};
  const bool buffered = op.momentum > 0;
  const Typed buffer = at.out_if(buffered, 1), master = at.out_if(op.master, buffered ? 2 : 1);
  const Typed gradients = at.in(0), weights = at.out(0);
  const Form form = at.form({gradients, buffer, op.master ? master : weights});
  return {SgdKernel{form, gradients, weights, buffer, master, pieces, op.momentum, op.weight_decay, at.table(),
                    {at.context().seed, op.stochastic}}};
}

}  // namespace tandem::exec::device
