// Frozen weights of 4 bits in the type of the products that read them.
#include "exec/cpu/kernels.hpp"
#include "exec/cpu/split.hpp"
#include "exec/shared/nf4.hpp"

namespace tandem::exec::cpu {

template <class T>
void compute(const Dequantize& op, Call& call) {
  require(op.source == DType::nf4 && op.elements % Nf4Block::kElements == 0, "weights that are no whole blocks of nf4");
  const auto* blocks = call.in<Nf4Block>(0);
  T* y = call.out<T>(0);
  each_row(call, op.elements / Nf4Block::kElements, Nf4Block::kElements, [&](std::int64_t b) {
    for (int i = 0; i < Nf4Block::kElements; ++i) y[b * Nf4Block::kElements + i] = static_cast<T>(blocks[b].value(i));
  });
}

TANDEM_KERNEL(Dequantize);

}  // namespace tandem::exec::cpu
