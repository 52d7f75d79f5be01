#pragma once
// The one place that knows how tensor parallelism talks: a sum (or maximum) over the tensor group where a rank holds a
// partial result, nothing where the degree is one.

#include "models/lowering/shapes.hpp"
#include "models/lowering/template_builder.hpp"

namespace tandem::lowering {

/// Appends an all-reduce of `v` over the tensor group on the tensor stream; returns its task, or `producer` at degree 1.
inline std::uint16_t tensor_all_reduce(TemplateBuilder& b, const Shapes& s, const Value& v, const std::string& name,
                                       std::uint16_t producer, Reduce reduce = Reduce::sum) {
  if (s.tensor == 1) return producer;
  return b.add(name + "_all_reduce", Collective{CollectiveKind::all_reduce, Group::tensor, v.elements, v.dtype, reduce},
               {v}, {v}, Stream::tensor);
}

}  // namespace tandem::lowering
