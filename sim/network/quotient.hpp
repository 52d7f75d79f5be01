#pragma once
// The folded simulation's network: one exchange for each class of transfers and message, one link for each class of links.
// A representative's bundle carries the flows of its whole class on every link it crosses, so contention on the
// quotient equals contention on the whole.

#include <array>
#include <compare>
#include <cstdint>
#include <span>
#include <vector>

#include "sim/network/communications.hpp"
#include "sim/network/exclusion.hpp"
#include "sim/network/roles.hpp"
#include "sim/network/transfer_map.hpp"

namespace tandem::sim {

/// Something that takes time and that ranks may have to meet for: a communication, or a computation on a shared
/// processor.
struct Exchange {
  std::uint32_t transfer_class = 0;
  std::array<std::vector<Segment>, 2> chains;  ///< Segment::uses indexes Quotient::uses
  Duration tail;
  Duration alone;             ///< with nobody else on its links, tail included
  std::uint32_t parties = 1;  ///< ends of roles that must arrive
  bool contends = false;      ///< somebody else may be on its links at the same time
};

/// What a task of a role is to the engine: an exchange, or a duration that nothing outside the role can change.
struct Slot {
  std::int64_t duration = 0;   ///< ps; meaningful when exchange < 0
  std::int32_t exchange = -1;  ///< which of its role's exchanges
  auto operator<=>(const Slot&) const = default;
};

/// Roles of a stage that differ only in whom they meet have one table of slots.
struct RoleSlots {
  std::uint32_t table = 0;
  std::vector<std::uint32_t> exchanges;  ///< what Slot::exchange counts: indexes Quotient::exchanges
};

struct Quotient {
  std::vector<Capacity> links;             ///< one for all classes of links that carry the same flows
  std::vector<std::vector<LinkUse>> uses;  ///< of all transfer classes in a row
  std::vector<Exchange> exchanges;
  std::vector<std::vector<Slot>> tables;  ///< by slot of the communications; each of one stage
  std::vector<RoleSlots> roles;
  std::uint32_t transfer_classes = 0;

  const std::vector<Slot>& slots(std::size_t role) const { return tables[roles[role].table]; }
};

struct Folded {
  const Setup& setup;
  const Communications& communications;
  const TransferMap& transfer_map;
  const Folding& folding;
};

/// Throws ContractError when a stage uses a message that its peers do not.
Quotient make_quotient(const Folded& folded, const LaneOfStream& lanes);

}  // namespace tandem::sim
