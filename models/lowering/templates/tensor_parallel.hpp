#pragma once
// Communication of tensor parallelism. A partial result is summed (or its maximum taken) over the tensor
// group; with degree 1 nothing happens. Under sequence parallelism (arXiv 2205.05198 section 4.2.2) the
// sum leaves each rank its own rows. Rows are gathered before a cut matrix, which needs all of them.

#include "models/lowering/shapes/shapes.hpp"
#include "models/lowering/templates/template_builder.hpp"

namespace tandem::lowering {

/// Appends an all-reduce of `v` over the tensor group on the tensor stream; returns its task, or `producer` at degree 1.
inline std::uint16_t tensor_all_reduce(TemplateBuilder& b, const Shapes& s, const Value& v, const std::string& name,
                                       std::uint16_t producer, Reduce reduce = Reduce::sum) {
  if (s.tensor == 1) return producer;
  return b.add(name + "_all_reduce", Collective{CollectiveKind::all_reduce, Group::tensor, v.elements, v.dtype, reduce, 0, b.in_pieces()},
               {v}, {v}, Stream::tensor);
}

/// A sum over the tensor group and the task that ends it.
struct Summed {
  Value value;
  std::uint16_t task;
};

/// Sums the partial result `v` of all tokens. Returns `v` itself or, under
/// sequence parallelism, this rank's rows of the sum, in `own` if given.
inline Summed tensor_sum(TemplateBuilder& b, const Shapes& s, const Value& v, const std::string& name,
                         std::uint16_t producer, Value own = {}) {
  if (!s.sequence_parallel) return {v, tensor_all_reduce(b, s, v, name, producer)};
  if (own.elements == 0) own = b.scratch(v.dtype, v.elements / s.tensor);
  const auto task =
      b.add(name + "_reduce_scatter",
            Collective{CollectiveKind::reduce_scatter, Group::tensor, v.elements, v.dtype, Reduce::sum, 0, b.in_pieces()}, {v},
            {own}, Stream::tensor);
  return {own, task};
}

/// All rows of `own`: itself or, under sequence parallelism, gathered from the tensor group, in `to` if given.
inline Value tensor_gather(TemplateBuilder& b, const Shapes& s, const Value& own, const std::string& name, const Value& to = {}) {
  if (!s.sequence_parallel) return own;
  const Value all = to.elements > 0 ? to : b.scratch(own.dtype, own.elements * s.tensor);
  b.add(name + "_all_gather", Collective{CollectiveKind::all_gather, Group::tensor, all.elements, own.dtype, Reduce::sum, 0, b.in_pieces()},
        {own}, {all}, Stream::tensor);
  return all;
}

}  // namespace tandem::lowering
