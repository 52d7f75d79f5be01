#pragma once
// Where a parameter group's gradient goes: straight into the accumulated gradient on the first micro-batch, through
// a scratch tensor that is complete and rounded before it is added on the later ones.

#include "models/lowering/template_builder.hpp"

namespace tandem::lowering {

/// One group of neighbouring parameters, `elements` long from element `offset` of `gradients`.
class GradientSink {
 public:
  GradientSink(TemplateBuilder& builder, Value gradients, bool first)
      : builder_(builder), gradients_(gradients), first_(first) {}

  /// Starts a group; its parts are then asked for with `part`.
  void open(std::int64_t offset, std::int64_t elements, DType compute) {
    offset_ = offset;
    elements_ = elements;
    target_ = first_ ? gradients_.part(offset, elements) : builder_.scratch(compute, elements);
  }
  /// The destination of the parameter at region offset `at`.
  Value part(std::int64_t at, std::int64_t elements) const { return target_.part(at - offset_, elements); }
  /// Adds the finished group into the accumulated gradient.
  void close(const std::string& name) {
    if (first_) return;
    const Value total = gradients_.part(offset_, elements_);
    builder_.add("accumulate_" + name, Accumulate{elements_, target_.dtype, total.dtype}, {target_, total}, {total});
  }

 private:
  TemplateBuilder& builder_;
  Value gradients_;
  bool first_;
  Value target_;
  std::int64_t offset_ = 0, elements_ = 0;
};

}  // namespace tandem::lowering
