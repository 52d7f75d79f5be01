#include "reports/trace/group_names.hpp"

#include <algorithm>
#include <charconv>
#include <set>

#include "models/base/text.hpp"
#include "reports/trace/rank_step.hpp"

namespace tandem {

namespace {

/// The numbers of "[0, 1, 2]".
std::vector<std::int32_t> numbers(const std::string& text) {
  std::vector<std::int32_t> out;
  for (std::size_t i = 0; i < text.size();) {
    std::int32_t value = 0;
    const auto [end, error] = std::from_chars(text.data() + i, text.data() + text.size(), value);
    if (error == std::errc()) out.push_back(value);
    i = error == std::errc() ? static_cast<std::size_t>(end - text.data()) : i + 1;
  }
  return out;
}

std::string rank_list(const std::vector<std::int32_t>& ranks) {
  std::string out = "ranks";
  for (const std::int32_t r : ranks) out += (out.size() > 5 ? ", " : " ") + std::to_string(r);
  return shortened(out, 40);
}

/// "ranks 8 apart", or how many the group has where the distances differ. Long lists are cut, so `size` counts.
std::string spacing(std::vector<std::int32_t> ranks, std::int64_t size) {
  std::sort(ranks.begin(), ranks.end());
  std::set<std::int32_t> distances;
  for (std::size_t i = 1; i < ranks.size(); ++i) distances.insert(ranks[i] - ranks[i - 1]);
  return distances.size() == 1 ? "ranks " + std::to_string(*distances.begin()) + " apart" : std::to_string(size) + " ranks";
}

}  // namespace

GroupNames::GroupNames(const Mesh& mesh, Rank rank, const UsedGroups& used) {
  for (std::size_t g = 0; g < kGroups; ++g) {
    const auto group = static_cast<Group>(g);
    Members m{std::string(name(group)), {}, {}};
    if (const auto found = used.find(m.name); found != used.end()) m.kinds = found->second;
    for (const Rank r : mesh.members(group, rank)) m.ranks.push_back(r.value());
    std::sort(m.ranks.begin(), m.ranks.end());
    groups_.push_back(std::move(m));
  }
  const auto goes_first = [](const Members& a, const Members& b) { return !a.kinds.empty() && b.kinds.empty(); };
  std::stable_sort(groups_.begin(), groups_.end(), goes_first);
}

/// `cut_size`: size of a group of which only some ranks are known; 0: all are.
std::string GroupNames::by_ranks(std::vector<std::int32_t> ranks, const std::string& kind, std::int64_t cut_size) const {
  std::sort(ranks.begin(), ranks.end());
  const Members* best = nullptr;
  for (const Members& m : groups_) {
    const bool begins = static_cast<std::int64_t>(m.ranks.size()) == cut_size &&
                        std::includes(m.ranks.begin(), m.ranks.end(), ranks.begin(), ranks.end());
    if (m.ranks != ranks && !begins) continue;
    if (!best || (best->kinds.count(kind) == 0 && m.kinds.count(kind) > 0)) best = &m;
  }
  return best ? best->name : rank_list(ranks);
}

std::string GroupNames::of(const CollectiveFacts& facts, const std::string& kind, const DeviceTrace& trace,
                           const TraceRules& rules) const {
  static const ProcessGroup unlisted;
  const auto found = trace.groups.find(facts.group);
  const ProcessGroup& listed = found == trace.groups.end() ? unlisted : found->second;
  if (groups_.empty()) return told_name(facts, listed, rules);
  if (!listed.ranks.empty()) return by_ranks(listed.ranks, kind, 0);
  if (const std::vector<std::int32_t> ranks = numbers(facts.ranks); !ranks.empty())
    return by_ranks(ranks, kind, facts.ranks.find("...") == std::string::npos ? 0 : facts.group_size);
  for (const std::string& description : {facts.description, listed.description})
    if (const std::string known = rules.group(description); !known.empty()) return known;
  return only_name(candidates(kind, facts.group_size));
}

std::string GroupNames::told_name(const CollectiveFacts& facts, const ProcessGroup& listed, const TraceRules& rules) {
  for (const std::string& description : {facts.description, listed.description}) {
    if (const std::string known = rules.group(description); !known.empty()) return known;
    if (description == "default_pg") return "world";
    if (!description.empty() && description != "undefined") return description;
  }
  const std::vector<std::int32_t> ranks = listed.ranks.empty() ? numbers(facts.ranks) : listed.ranks;
  return ranks.empty() ? "" : spacing(ranks, std::max(facts.group_size, static_cast<std::int64_t>(ranks.size())));
}

std::vector<const GroupNames::Members*> GroupNames::candidates(const std::string& kind, std::int64_t size) const {
  std::vector<const Members*> out, with_kind;
  for (const Members& m : groups_) {
    if (m.kinds.empty() || (size > 0 && static_cast<std::int64_t>(m.ranks.size()) != size)) continue;
    out.push_back(&m);
    if (m.kinds.count(kind) > 0) with_kind.push_back(&m);
  }
  return with_kind.empty() && size > 0 ? out : with_kind;
}

std::string GroupNames::only_name(const std::vector<const Members*>& groups) {
  return groups.size() == 1 ? groups.front()->name : "";
}

std::string GroupNames::of_kind(const std::string& kind) const { return only_name(candidates(kind, 0)); }

std::string GroupNames::class_of(const std::string& kind, std::int64_t size) const {
  std::set<std::string> classes;
  for (const Members* m : candidates(kind, size)) classes.insert(communication_class(m->name));
  return classes.size() == 1 ? *classes.begin() : communication_class("");
}

std::int64_t GroupNames::size(const std::string& group) const {
  for (const Members& m : groups_)
    if (m.name == group) return static_cast<std::int64_t>(m.ranks.size());
  return 0;
}

}  // namespace tandem
