#include "sim/network/quotient.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <tuple>

#include "sim/network/merged_links.hpp"

namespace tandem::sim {
namespace {

/// A role at one end of a port.
using PortMember = std::pair<std::uint32_t, PortEnd>;

class QuotientBuilder {
 public:
  QuotientBuilder(const Folded& folded, const LaneOfStream& lanes)
      : f_(folded), exclusion_(folded.setup.graph, folded.communications, lanes) {}

  Quotient build() {
    for (const std::uint32_t l : f_.folding.links.first) out_.links.push_back(f_.transfer_map.links[l]);
    out_.transfer_classes = static_cast<std::uint32_t>(f_.folding.transfers.size());
    place_uses();
    count_uses();
    merge_links(out_.links, out_.uses);
    find_members();
    find_contention();
    for (std::uint32_t role = 0; role < f_.folding.ranks.size(); ++role) place_slots(role);
    return std::move(out_);
  }

 private:
  const Transfer& transfer(std::uint32_t transfer_class) const {
    return f_.transfer_map.pattern(f_.folding.transfers.first[transfer_class]);
  }

  void place_uses() {
    for (std::uint32_t c = 0; c < out_.transfer_classes; ++c) {
      first_use_.push_back(static_cast<std::uint32_t>(out_.uses.size()));
      out_.uses.resize(out_.uses.size() + transfer(c).uses.size());
    }
    first_use_.push_back(static_cast<std::uint32_t>(out_.uses.size()));
  }

  /// Counts the flows of every transfer on the representative of each link class, summed by the transfer's class.
  void count_uses() {
    for (std::size_t w = 0; w < f_.transfer_map.transfers.size(); ++w)
      f_.transfer_map.each_use(w, [&](std::size_t u, const LinkUse& use) {
        const std::uint32_t link = f_.folding.links.of[use.link];
        if (f_.folding.links.first[link] == use.link)
          out_.uses[first_use_[f_.folding.transfers.of[w]] + u].push_back({link, use.flows});
      });
    for (auto& uses : out_.uses) sum_up(uses);
  }

  /// Merges uses to one entry a link, ascending.
  static void sum_up(std::vector<LinkUse>& uses) {
    std::sort(uses.begin(), uses.end());
    std::size_t kept = 0;
    for (std::size_t i = 0; i < uses.size(); ++i)
      if (kept > 0 && uses[kept - 1].link == uses[i].link) uses[kept - 1].flows += uses[i].flows;
      else uses[kept++] = uses[i];
    uses.resize(kept);
  }

  void find_members() {
    for (std::uint32_t c = 0; c < out_.transfer_classes; ++c) {
      std::vector<PortMember> members;
      const Transfer& w = transfer(c);
      for (std::size_t m = 0; m < w.members.size(); ++m)
        members.emplace_back(f_.folding.ranks.of[f_.transfer_map.member(f_.folding.transfers.first[c], m)],
                             2 * w.port + (w.directed && m == 1 ? 1 : 0));
      std::sort(members.begin(), members.end());
      members.erase(std::unique(members.begin(), members.end()), members.end());
      members_.push_back(std::move(members));
    }
  }

  /// Whether two transfer classes never run at once, because some role takes part in both and never at once.
  bool take_turns(std::uint32_t a, std::uint32_t b) const {
    if (members_[a].size() > members_[b].size()) std::swap(a, b);
    const std::vector<PortMember> &few = members_[a], &many = members_[b];
    for (const PortMember& x : few)
      for (auto y = std::lower_bound(many.begin(), many.end(), PortMember{x.first, 0}); y != many.end() && y->first == x.first; ++y)
        if (!exclusion_.at_once(stage(x.first), x.second, y->second)) return true;
    return false;
  }

  StageId stage(std::uint32_t role) const {
    return f_.setup.stage_of(Rank(static_cast<std::int32_t>(f_.folding.ranks.first[role])));
  }

  /// Finds the transfer classes that contend: two that can use a link at once.
  void find_contention() {
    std::vector<std::vector<std::uint32_t>> users(out_.links.size());
    for (std::uint32_t c = 0; c < out_.transfer_classes; ++c)
      for (std::uint32_t u = first_use_[c]; u < first_use_[c + 1]; ++u)
        for (const LinkUse& use : out_.uses[u])
          if (users[use.link].empty() || users[use.link].back() != c) users[use.link].push_back(c);
    contends_.assign(out_.transfer_classes, false);
    for (const auto& list : users)
      for (std::size_t i = 0; i < list.size(); ++i)
        for (std::size_t j = 0; j < i; ++j)
          if (!(contends_[list[i]] && contends_[list[j]]) && !take_turns(list[i], list[j]))
            contends_[list[i]] = contends_[list[j]] = true;
  }

  /// Distinct tasks of a stage: a communication occurs in many templates, but is worked out once.
  struct Asked {
    std::uint32_t tmpl, slot;
    const Task* task;
  };
  struct StageSlots {
    std::vector<Asked> once;
    std::vector<std::pair<std::uint32_t, std::size_t>> slots;  ///< (slot, its place in `once`)
  };

  StageSlots stage_slots(std::size_t stage) const {
    StageSlots out;
    std::map<std::tuple<std::int32_t, bool, std::uint32_t>, std::size_t> known;
    for (const std::uint32_t t : f_.communications.templates[stage])
      for (std::uint32_t slot = f_.communications.first_slot[t]; slot < f_.communications.first_slot[t + 1]; ++slot) {
        const Communications::Entry& entry = f_.communications.entries[slot];
        const auto [at, fresh] = known.try_emplace({entry.message, entry.receiver, entry.message < 0 ? slot : 0}, out.once.size());
        if (fresh) out.once.push_back({t, slot, &f_.setup.graph.templates[t].tasks[slot - f_.communications.first_slot[t]]});
        out.slots.emplace_back(slot, at->second);
      }
    return out;
  }

  void place_slots(std::uint32_t role) {
    const Rank rank(static_cast<std::int32_t>(f_.folding.ranks.first[role]));
    const std::size_t stage = f_.setup.stage_of(rank).index();
    const auto [known, first_of_stage] = stage_slots_.try_emplace(stage);
    if (first_of_stage) known->second = stage_slots(stage);
    RoleSlots own;
    std::vector<Slot> answers;
    answers.reserve(known->second.once.size());
    auto& durations = durations_[f_.setup.speed(rank)];
    for (const Asked& asked : known->second.once) answers.push_back(slot(rank, asked, durations, own.exchanges));
    const auto [at, fresh] = tables_.try_emplace({stage, std::move(answers)}, static_cast<std::uint32_t>(out_.tables.size()));
    own.table = at->second;
    if (fresh) {
      std::vector<Slot>& table = out_.tables.emplace_back(f_.communications.entries.size());
      for (const auto& [slot, place] : known->second.slots) table[slot] = at->first.second[place];
    }
    out_.roles.push_back(std::move(own));
  }

  using Durations = std::vector<std::optional<Duration>>;

  Slot slot(Rank rank, const Asked& asked, Durations& durations, std::vector<std::uint32_t>& exchanges) {
    const Communications::Entry& entry = f_.communications.entries[asked.slot];
    if (entry.message >= 0) return as_slot(exchange(rank, *asked.task, entry), exchanges);
    const Duration alone = duration(rank, asked, durations);
    return f_.transfer_map.shared_cores ? as_slot(computation(rank, alone), exchanges) : Slot{alone.ps()};
  }

  /// Duration of a computation, worked out once for all ranks of one speed; with replayed rows of experts, for each rank.
  Duration duration(Rank rank, const Asked& asked, Durations& durations) const {
    durations.resize(f_.communications.entries.size());
    std::optional<Duration>& known = durations[asked.slot];
    if (!known || f_.setup.replay != nullptr) known = f_.setup.duration(rank, asked.tmpl, *asked.task);
    require(*known >= Duration{}, "the cost model gave a negative duration");
    return *known;
  }

  /// The slot of an exchange. If it has one party and links of its own, it is a plain duration.
  Slot as_slot(std::uint32_t id, std::vector<std::uint32_t>& exchanges) const {
    const Exchange& e = out_.exchanges[id];
    if (e.parties == 1 && !e.contends) return {e.alone.ps()};
    const auto at = std::find(exchanges.begin(), exchanges.end(), id);
    const auto number = static_cast<std::int32_t>(at - exchanges.begin());
    if (at == exchanges.end()) exchanges.push_back(id);
    return {0, number};
  }

  std::uint32_t transfer_class(Rank rank, std::size_t end, const Task& task) const {
    const std::int32_t w = f_.transfer_map.transfer_of[end][rank.index()];
    if (w < 0) throw ContractError("task '" + task.name + "' receives what no stage sends");
    return f_.folding.transfers.of[static_cast<std::size_t>(w)];
  }

  std::uint32_t exchange(Rank rank, const Task& task, const Communications::Entry& entry) {
    const auto message = static_cast<std::uint32_t>(entry.message);
    const std::uint32_t c = transfer_class(rank, 2 * f_.communications.messages[message].port + entry.receiver, task);
    const auto [it, fresh] = of_message_.try_emplace({c, message}, static_cast<std::uint32_t>(out_.exchanges.size()));
    if (fresh) out_.exchanges.push_back(made(c, plan(c, message, task)));
    return it->second;
  }

  std::uint32_t computation(Rank rank, Duration alone) {
    const auto w = static_cast<std::size_t>(f_.transfer_map.transfer_of[2 * f_.communications.core_port][rank.index()]);
    const std::uint32_t c = f_.folding.transfers.of[w];
    const auto [it, fresh] = of_duration_.try_emplace({c, alone}, static_cast<std::uint32_t>(out_.exchanges.size()));
    if (fresh) out_.exchanges.push_back(made(c, TransferPlan{0, {{{{0, core_work(alone)}}, {}}}, {}}));
    return it->second;
  }

  const TransferPlan& plan(std::uint32_t transfer_class, std::uint32_t message, const Task& task) const {
    for (const TransferPlan& r : transfer(transfer_class).plans)
      if (r.message == message) return r;
    throw ContractError("task '" + task.name + "' communicates what its peers do not");
  }

  Exchange made(std::uint32_t transfer_class, const TransferPlan& plan) const {
    Exchange e;
    e.transfer_class = transfer_class;
    e.chains = plan.chains;
    e.tail = plan.tail;
    for (auto& chain : e.chains)
      for (Segment& s : chain) s.uses += first_use_[transfer_class];
    e.alone = time_alone(e.chains, out_.uses, out_.links) + e.tail;
    e.parties = static_cast<std::uint32_t>(members_[transfer_class].size());
    const bool two_chains = !e.chains[0].empty() && !e.chains[1].empty();
    e.contends =
        (contends_[transfer_class] || (two_chains && overlaps(e))) && !(e.chains[0].empty() && e.chains[1].empty());
    return e;
  }

  /// Whether the two chains of an exchange load a common link.
  bool overlaps(const Exchange& e) const {
    std::set<std::uint32_t> links;
    for (const Segment& s : e.chains[0])
      for (const LinkUse& use : out_.uses[s.uses]) links.insert(use.link);
    for (const Segment& s : e.chains[1])
      for (const LinkUse& use : out_.uses[s.uses])
        if (links.count(use.link) != 0) return true;
    return false;
  }

  const Folded& f_;
  Exclusion exclusion_;
  Quotient out_;
  std::vector<std::uint32_t> first_use_;
  std::vector<std::vector<PortMember>> members_;
  std::vector<bool> contends_;
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint32_t> of_message_;
  std::map<std::pair<std::uint32_t, Duration>, std::uint32_t> of_duration_;
  std::map<std::size_t, StageSlots> stage_slots_;
  std::map<double, Durations> durations_;  ///< by speed, then slot
  std::map<std::pair<std::size_t, std::vector<Slot>>, std::uint32_t> tables_;  ///< by stage and its answers
};

}  // namespace

Quotient make_quotient(const Folded& folded, const LaneOfStream& lanes) {
  return QuotientBuilder(folded, lanes).build();
}

}  // namespace tandem::sim
