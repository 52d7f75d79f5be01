#pragma once
// Opaque indices: a stage cannot be passed where a rank is wanted.

#include <compare>
#include <cstdint>
#include <functional>

namespace tandem {

/// Integer index that only compares with its own kind. `Tag` names the kind.
template <class Tag>
class Id {
 public:
  constexpr Id() = default;
  explicit constexpr Id(std::int32_t v) : v_(v) {}
  constexpr std::int32_t value() const { return v_; }
  constexpr std::size_t index() const { return static_cast<std::size_t>(v_); }
  constexpr auto operator<=>(const Id&) const = default;

 private:
  std::int32_t v_ = -1;
};

using Rank = Id<struct RankTag>;          ///< logical rank, 0 .. world-1
using StageId = Id<struct StageTag>;      ///< pipeline stage, 0 .. pipeline-1
using TemplateId = Id<struct TemplateTag>;///< index into TaskGraph::templates
using RoleId = Id<struct RoleTag>;        ///< class of alike ranks
using DeviceId = Id<struct DeviceTag>;    ///< physical device of a topology

}  // namespace tandem

template <class Tag>
struct std::hash<tandem::Id<Tag>> {
  std::size_t operator()(tandem::Id<Tag> id) const noexcept { return static_cast<std::size_t>(id.value()); }
};
