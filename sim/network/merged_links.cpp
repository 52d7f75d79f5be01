#include "sim/network/merged_links.hpp"

#include <algorithm>
#include <cstdint>

namespace tandem::sim {
namespace {

constexpr std::uint32_t kNone = UINT32_MAX;

/// By link: a number. Two links have the same one exactly if the same flows of the same uses cross them.
std::vector<std::uint32_t> alike(std::size_t links, const std::vector<std::vector<LinkUse>>& uses) {
  struct Crossed {
    std::uint32_t so_far;
    std::int32_t flows;
    std::uint32_t link;
    auto operator<=>(const Crossed&) const = default;
  };
  std::vector<std::uint32_t> number(links, 0);
  std::uint32_t count = 1;
  std::vector<Crossed> crossed;
  for (const std::vector<LinkUse>& use : uses) {
    crossed.clear();
    for (const LinkUse& u : use) crossed.push_back({number[u.link], u.flows, u.link});
    std::sort(crossed.begin(), crossed.end());
    for (std::size_t i = 0; i < crossed.size(); ++i) {
      if (i == 0 || crossed[i].so_far != crossed[i - 1].so_far || crossed[i].flows != crossed[i - 1].flows) ++count;
      number[crossed[i].link] = count - 1;
    }
  }
  return number;
}

/// By link: the link that replaces it, itself or a slower one.
std::vector<std::uint32_t> slowest(const std::vector<Capacity>& links, const std::vector<std::vector<LinkUse>>& uses) {
  const std::vector<std::uint32_t> number = alike(links.size(), uses);
  std::vector<std::uint32_t> best(links.empty() ? 0 : *std::max_element(number.begin(), number.end()) + 1, kNone),
      out(links.size());
  for (std::uint32_t l = 0; l < links.size(); ++l)
    if (std::uint32_t& b = best[number[l]]; links[l].by_users.empty() && (b == kNone || links[l].rate < links[b].rate)) b = l;
  for (std::uint32_t l = 0; l < links.size(); ++l) out[l] = links[l].by_users.empty() ? best[number[l]] : l;
  return out;
}

}  // namespace

void merge_links(std::vector<Capacity>& links, std::vector<std::vector<LinkUse>>& uses) {
  const std::vector<std::uint32_t> stands = slowest(links, uses);
  std::vector<std::uint32_t> renumbered(links.size(), kNone);
  std::vector<Capacity> kept;
  for (std::vector<LinkUse>& use : uses) {
    std::erase_if(use, [&](const LinkUse& u) { return stands[u.link] != u.link; });
    for (LinkUse& u : use) {
      if (renumbered[u.link] == kNone) {
        renumbered[u.link] = static_cast<std::uint32_t>(kept.size());
        kept.push_back(std::move(links[u.link]));
      }
      u.link = renumbered[u.link];
    }
    std::sort(use.begin(), use.end());
  }
  links = std::move(kept);
}

}  // namespace tandem::sim
