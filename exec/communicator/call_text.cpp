#include "exec/communicator/call_text.hpp"

#include <vector>

#include "models/base/text.hpp"
#include "models/ops/collective.hpp"

namespace tandem::exec {

std::string describe(const Collective& op) {
  std::string s(name(op.kind));
  s += op.reduce == Reduce::max ? " (max) of " : " of ";
  return s + std::to_string(op.elements) + " " + std::string(name(op.dtype));
}

std::string rank_text(Rank r) { return "rank " + std::to_string(r.value()); }

std::string ranks_text(std::span<const Rank> ranks) {
  if (ranks.size() == 1) return rank_text(ranks.front());
  std::vector<std::string> numbers;
  for (const Rank r : ranks) numbers.push_back(std::to_string(r.value()));
  return "ranks " + list_text(numbers);
}

bool alike(const Collective& a, const Collective& b) {
  return a.kind == b.kind && a.elements == b.elements && a.dtype == b.dtype && a.reduce == b.reduce && a.row == b.row;
}

std::string mismatch(const Collective& a, Rank first, const Collective& b, Rank second) {
  return "mismatched collectives on group " + std::string(name(a.group)) + ": " + rank_text(first) + " entered " + describe(a) + ", " +
         rank_text(second) + " entered " + describe(b);
}

std::string mismatch(const MessageEnd& sent, Rank from, const MessageEnd& wanted, Rank to) {
  const auto text = [](const MessageEnd& e) { return std::to_string(e.bytes) + " bytes with tag " + std::to_string(e.tag); };
  return "mismatched send and receive: " + rank_text(from) + " sends " + text(sent) + ", " + rank_text(to) + " expects " + text(wanted);
}

}  // namespace tandem::exec
