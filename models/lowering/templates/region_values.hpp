#pragma once
// A region's parameters, or their gradients, by name as a template's tasks see them.

#include "models/lowering/shapes/regions.hpp"
#include "models/lowering/templates/template_builder.hpp"

namespace tandem::lowering {

class RegionValues {
 public:
  RegionValues() = default;
  RegionValues(const RegionLayout& layout, Value whole) : layout_(&layout), whole_(whole) {}

  Value operator()(std::string_view name) const {
    const ParamSpec& p = layout_->at(name);
    return whole_.part(p.offset, p.elements());
  }
  const RegionLayout& layout() const { return *layout_; }
  const Value& whole() const { return whole_; }

 private:
  const RegionLayout* layout_ = nullptr;
  Value whole_;
};

}  // namespace tandem::lowering
