#pragma once
// Which group of a plan's mesh a process group of a framework is.

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "models/plan/mesh.hpp"
#include "reports/trace/trace_rules.hpp"

namespace tandem {

/// Kinds of collectives in a simulated step, by the group that they run over.
using UsedGroups = std::map<std::string, std::set<std::string>>;

/// Groups of one rank, and which of them the simulated step uses.
class GroupNames {
 public:
  GroupNames(const Mesh& mesh, Rank rank, const UsedGroups& used);
  /// Without a plan: `of` gives the group of a description ("data"), else the description itself, else the distance of the ranks
  /// ("ranks 8 apart"), which all ranks of a regular layout share.
  GroupNames() = default;

  /// By the members, if the trace tells them: of groups with the same members the one that the simulation uses for this kind, else
  /// for any. Else by the group's description; else by its size, if only one used group has it, or only one of these is used for the
  /// kind. Empty: unknown. A group with members that no group of the plan has is "ranks 0, 4".
  std::string of(const CollectiveFacts& facts, const std::string& kind, const DeviceTrace& trace, const TraceRules& rules) const;
  /// The only group that the simulation uses for this kind; empty if there are several or none.
  std::string of_kind(const std::string& kind) const;
  /// The class of communication that all groups share which `of` could mean by kind and size (0: unknown); else that of an unknown
  /// group.
  std::string class_of(const std::string& kind, std::int64_t size) const;

  /// Size of a group by its name; 0 for a name that no group has.
  std::int64_t size(const std::string& group) const;

 private:
  struct Members {
    std::string name;
    std::vector<std::int32_t> ranks;  ///< ascending
    std::set<std::string> kinds;      ///< that the simulated step uses it for
  };
  /// Used groups of this size (0: of any); where some are used for this kind, only these. Of any size, only these.
  std::vector<const Members*> candidates(const std::string& kind, std::int64_t size) const;
  static std::string told_name(const CollectiveFacts& facts, const ProcessGroup& listed, const TraceRules& rules);
  static std::string only_name(const std::vector<const Members*>& groups);
  std::string by_ranks(std::vector<std::int32_t> ranks, const std::string& kind, std::int64_t cut_size) const;

  std::vector<Members> groups_;  ///< used ones first
};

}  // namespace tandem
