#pragma once
// Destination of a parameter group's gradient. The first micro-batch writes the accumulated
// gradient directly. Later ones write a scratch tensor, complete and rounded, which is then added.

#include "models/lowering/templates/region_values.hpp"

namespace tandem::lowering {

/// Writes gradients of groups of neighbouring parameters in one region.
class GradientSink {
 public:
  /// `first`: overwrites gradients rather than adding; `fill`: then also zero-fills the padding up to the next region.
  GradientSink(TemplateBuilder& builder, RegionValues gradients, bool first, bool fill = true)
      : builder_(builder), gradients_(gradients), first_(first) {
    if (!first || !fill || gradients.whole().elements == 0) return;
    const std::int64_t used = gradients.layout().elements(), padding = gradients.whole().elements - used;
    const Value& all = gradients.whole();
    if (padding > 0)
      builder.add("padding_" + std::to_string(all.slot), Fill{padding, all.dtype}, {}, {all.part(used, padding)});
  }

  /// Opens the group of parameters `from` to `to`, both included. `part` then returns their destinations.
  void open(std::string_view from, std::string_view to, DType compute) {
    const ParamSpec &a = gradients_.layout().at(from), &b = gradients_.layout().at(to);
    offset_ = a.offset;
    elements_ = b.offset + b.elements() - a.offset;
    target_ = first_ ? gradients_.whole().part(offset_, elements_) : builder_.scratch(compute, elements_);
  }
  /// Destination of one parameter's gradient.
  Value part(std::string_view name) const {
    const ParamSpec& p = gradients_.layout().at(name);
    return target_.part(p.offset - offset_, p.elements());
  }
  /// Destination of the whole group's gradient.
  const Value& whole() const { return target_; }
  bool has(std::string_view name) const { return gradients_.layout().has(name); }
  /// Closes the group: adds its finished gradient to the accumulated gradient, unless `first`.
  void close(const std::string& name) {
    if (first_) return;
    const Value total = gradients_.whole().part(offset_, elements_);
    builder_.add("accumulate_" + name, Accumulate{elements_, target_.dtype, total.dtype}, {target_, total}, {total});
  }

  bool first() const { return first_; }
  /// The accumulated gradient of the open group.
  Value total() const { return gradients_.whole().part(offset_, elements_); }

 private:
  TemplateBuilder& builder_;
  RegionValues gradients_;
  bool first_;
  Value target_;
  std::int64_t offset_ = 0, elements_ = 0;
};

/// A parameter's gradient of which several tasks of a template compute parts, one after the other. The parts are
/// summed per micro-batch before they are accumulated, unless the fusion set's products accumulate directly.
class GradientParts {
 public:
  GradientParts(TemplateBuilder& builder, GradientSink& sink, const Shapes& s, std::string parameter)
      : builder_(builder), sink_(sink), type_(s.numerics.parameter_gradient), parameter_(std::move(parameter)),
        in_products_(s.fusion.accumulating_products) {}

  /// Destination of the next part.
  Value next() {
    if (parts_ == 0) sink_.open(parameter_, parameter_, type_);
    now_ = parts_ == 0 ? sink_.part(parameter_) : builder_.scratch(type_, sink_.total().elements);
    return now_;
  }
  /// Call when the part is written. `last`: no part follows. `name`: name of the tasks.
  void add(const std::string& name, bool last) {
    const bool begins = parts_++ == 0;
    const Value to = in_products_ ? sink_.total() : sink_.part(parameter_);
    if (!begins) builder_.add("accumulate_" + name, Accumulate{to.elements, now_.dtype, to.dtype}, {now_, to}, {to});
    if (in_products_ ? begins : last) sink_.close(name);
  }

 private:
  TemplateBuilder& builder_;
  GradientSink& sink_;
  DType type_;
  std::string parameter_;
  bool in_products_;
  int parts_ = 0;
  Value now_;
};

}  // namespace tandem::lowering
