#include <algorithm>
#include <array>
#include <map>
#include <numeric>

#include "experiments/tandem/search/report.hpp"
#include "models/base/text.hpp"
#include "reports/prediction/text.hpp"

namespace tandem::search {

namespace {

constexpr std::int64_t kMostAsked = 100'000;

/// The wanted value index of each axis; -1: any.
std::vector<std::ptrdiff_t> wanted(const Space& space, const std::string& where) {
  std::vector<std::ptrdiff_t> out(space.axes().size(), -1);
  for (std::size_t begin = 0; begin < where.size();) {
    const std::size_t end = std::min(where.find(',', begin), where.size());
    const AxisRequest asked = read_axis(where.substr(begin, end - begin));
    begin = end + 1;
    const std::ptrdiff_t axis = space.axis_of(asked.field);
    if (axis < 0) throw ConfigError(Problem{"--why", asked.field, "", "does not vary in this search", "add it with --axis"});
    const Axis& of = space.axes()[static_cast<std::size_t>(axis)];
    std::vector<std::string> texts;
    for (const AxisValue& v : of.values) texts.push_back(v.text);
    std::string value = asked.values.front();
    if (value.size() > 1 && value.front() == '"') value = value.substr(1, value.size() - 2);
    const auto found = std::find(texts.begin(), texts.end(), value);
    if (found == texts.end())
      throw ConfigError(Problem{"--why", asked.field, value, "is no value of this search", "use " + list_text(texts, "or") + ", or add it with --axis"});
    out[static_cast<std::size_t>(axis)] = found - texts.begin();
  }
  return out;
}

/// One candidate, described in words.
struct Example {
  CandidateId id = 0;
  std::string reason;
};

bool matches(const Choice& choice, const std::vector<std::ptrdiff_t>& want) {
  for (std::size_t a = 0; a < want.size(); ++a)
    if (want[a] >= 0 && want[a] != choice[a]) return false;
  return true;
}

std::int64_t matching(const Space& space, const std::vector<std::ptrdiff_t>& want) {
  std::int64_t n = 1;
  for (std::size_t a = 0; a < want.size(); ++a) n *= want[a] >= 0 ? 1 : static_cast<std::int64_t>(space.axes()[a].values.size());
  return n;
}

}  // namespace

std::string why_text(const Search& search, const Answer& answer, const std::string& where) {
  const Space& space = search.judge().space();
  const std::vector<std::ptrdiff_t> want = wanted(space, where);
  const std::int64_t asked = matching(space, want);
  if (asked > kMostAsked)
    throw ConfigError(Problem{"", "--why", where, "names " + count_text(asked) + " candidates", "name more fields, for at most " + count_text(kMostAsked)});
  Counts counts{};
  std::array<Example, kOutcomes> first;
  for (CandidateId id = 0; id < space.size(); ++id) {
    if (!matches(space.choice(id), want)) continue;
    std::string reason;
    const Outcome outcome = search.outcome(id, answer, reason);
    if (at(counts, outcome)++ == 0) first[static_cast<std::size_t>(outcome)] = {id, std::move(reason)};
  }
  std::string out = "why " + where + ": " + count_text(asked) + (asked == 1 ? " candidate\n" : " candidates\n");
  for (std::size_t f = 0; f < kOutcomes; ++f) {
    if (counts[f] == 0) continue;
    out += "  " + padded(meaning(static_cast<Outcome>(f)), 46) + aligned(count_text(counts[f]), 12) + "\n";
    out += (counts[f] == 1 ? "    " : "    such as ") + space.text(first[f].id) + (first[f].reason.empty() ? "" : ": " + first[f].reason) + "\n";
  }
  return out;
}

namespace {

/// A degree's values, by its axis or by the plan.
std::vector<std::int64_t> values_of(const Space& space, const std::string& field, std::int64_t said) {
  const std::ptrdiff_t axis = space.axis_of(field);
  if (axis < 0) return {said};
  std::vector<std::int64_t> out;
  for (const AxisValue& v : space.axes()[static_cast<std::size_t>(axis)].values) out.push_back(std::stoll(v.text));
  return out;
}

std::string or_text(const std::vector<std::int64_t>& numbers) {
  std::vector<std::string> words;
  for (const std::int64_t n : numbers) words.push_back(count_text(n));
  return list_text(words, "or");
}

}  // namespace

std::string devices_text(const Search& search, const Answer& answer) {
  if (at(answer.counts, Outcome::devices) < answer.candidates) return "";
  const Space& space = search.judge().space();
  const Plan& plan = space.question().draft.plan;
  const std::int64_t each = plan.cluster.ranks_per_device;
  std::int64_t least = 1;
  std::string out, names;
  for (const auto& [name, said] : {std::pair("tensor", plan.parallel.tensor), std::pair("pipeline", plan.parallel.pipeline),
                                   std::pair("context", plan.parallel.context), std::pair("data", plan.parallel.data)}) {
    const std::string field = "parallel." + std::string(name);
    if (field == "parallel.data" && space.axis_of(field) < 0 && !space.question().draft.given.contains(field)) continue;
    const std::vector<std::int64_t> values = values_of(space, field, said);
    least *= *std::min_element(values.begin(), values.end());
    names += (names.empty() ? "" : " x ") + std::string(name);
    std::vector<std::int64_t> devices;
    for (const std::int64_t v : values) devices.push_back(v / std::gcd(v, each));
    if (std::any_of(devices.begin(), devices.end(), [&](std::int64_t n) { return plan.cluster.devices % n == 0; })) continue;
    out += "  " + std::string(name) + " " + or_text(values) + " needs a multiple of " + or_text(devices) + " devices\n";
  }
  if (out.empty()) out = "  no " + names + " goes into " + count_text(plan.cluster.devices * each) + " ranks: the least is " + count_text(least) + "\n";
  return "no layout goes into the number of devices, " + count_text(plan.cluster.devices) + ":\n" + out;
}

std::string obstacles_text(const Search& search, const Answer& answer) {
  const bool checked = at(answer.counts, Outcome::unlowered) + at(answer.counts, Outcome::stack) > 0;
  const std::vector<Outcome> outcomes = checked ? std::vector{Outcome::unlowered, Outcome::stack} : std::vector{Outcome::layout};
  std::string out;
  for (const Outcome wanted : outcomes) {
    if (at(answer.counts, wanted) == 0) continue;
    for (CandidateId id = 0; id < std::min(search.judge().space().size(), kMostAsked); ++id) {
      std::string reason;
      if (search.outcome(id, answer, reason) != wanted || reason.empty()) continue;
      out += "  " + std::string(meaning(wanted)) + ", such as " + reason + "\n";
      break;
    }
  }
  if (at(answer.counts, Outcome::stack) > 0) out += "  --stack names another framework; --any-stack ignores what it refuses\n";
  return out;
}

}  // namespace tandem::search
