#pragma once
// Where a parameter group's gradient goes: straight into the accumulated gradient on the first micro-batch, through
// a scratch tensor that is complete and rounded before it is added on the later ones.

#include "models/lowering/templates/region_values.hpp"

namespace tandem::lowering {

/// Groups of neighbouring parameters of one region.
class GradientSink {
 public:
  /// `first`: gradients are written, not added to, and so are the elements between this region and the next.
  GradientSink(TemplateBuilder& builder, RegionValues gradients, bool first, bool fill = true)
      : builder_(builder), gradients_(gradients), first_(first) {
    if (!first || !fill || gradients.whole().elements == 0) return;
    const std::int64_t used = gradients.layout().elements(), padding = gradients.whole().elements - used;
    const Value& all = gradients.whole();
    if (padding > 0)
      builder.add("padding_" + std::to_string(all.slot), Fill{padding, all.dtype}, {}, {all.part(used, padding)});
  }

  /// Starts the group from parameter `from` to parameter `to`, its last one; its parts are then asked for with `part`.
  void open(std::string_view from, std::string_view to, DType compute) {
    const ParamSpec &a = gradients_.layout().at(from), &b = gradients_.layout().at(to);
    offset_ = a.offset;
    elements_ = b.offset + b.elements() - a.offset;
    target_ = first_ ? gradients_.whole().part(offset_, elements_) : builder_.scratch(compute, elements_);
  }
  /// The destination of one parameter.
  Value part(std::string_view name) const {
    const ParamSpec& p = gradients_.layout().at(name);
    return target_.part(p.offset - offset_, p.elements());
  }
  /// The destination of the whole group.
  const Value& whole() const { return target_; }
  bool has(std::string_view name) const { return gradients_.layout().has(name); }
  /// Adds the finished group into the accumulated gradient.
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

/// The gradient of one parameter that several tasks of a template give parts of, one after the other. A micro-batch's is complete before it
/// is added to the others', unless products of the target add to that themselves.
class GradientParts {
 public:
  GradientParts(TemplateBuilder& builder, GradientSink& sink, const Shapes& s, std::string parameter)
      : builder_(builder), sink_(sink), type_(s.numerics.parameter_gradient), parameter_(std::move(parameter)),
        in_products_(s.fusion.accumulating_products) {}

  /// Where the next part is written.
  Value next() {
    if (parts_ == 0) sink_.open(parameter_, parameter_, type_);
    now_ = parts_ == 0 ? sink_.part(parameter_) : builder_.scratch(type_, sink_.total().elements);
    return now_;
  }
  /// It is there. Of several ones, `last` ends them; `name`: of the tasks.
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
