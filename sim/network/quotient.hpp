#pragma once
// The network of the folded simulation: one exchange for each class of transfers and message, one link for each class of
// links. A representative's bundle has the flows of its whole class on every link it crosses, so it contends as all
// transfers would.

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

/// A task for which ranks may have to meet or share links: a communication, or a computation on a shared
/// processor.
struct Exchange {
  std::uint32_t transfer_class = 0;
  std::array<std::vector<Segment>, 2> chains;  ///< Segment::uses indexes Quotient::uses
  Duration tail;              ///< time after the last byte: latencies and overhead
  Duration alone;             ///< time alone on its links, tail included
  std::uint32_t parties = 1;  ///< number of ends of roles that must arrive
  bool contends = false;      ///< another exchange may use its links at the same time
};

/// A task of a role as the engine sees it: an exchange, or a duration that nothing outside the role can change.
struct Slot {
  std::int64_t duration = 0;   ///< ps; meaningful when exchange < 0
  std::int32_t exchange = -1;  ///< index into RoleSlots::exchanges; -1: none
  auto operator<=>(const Slot&) const = default;
};

/// Slots of a role. Roles of a stage that differ only in their partners share a table.
struct RoleSlots {
  std::uint32_t table = 0;
  std::vector<std::uint32_t> exchanges;  ///< by Slot::exchange: index into Quotient::exchanges
};

struct Quotient {
  std::vector<Capacity> links;             ///< one for all link classes that carry the same flows
  std::vector<std::vector<LinkUse>> uses;  ///< of all transfer classes, one after the other
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
