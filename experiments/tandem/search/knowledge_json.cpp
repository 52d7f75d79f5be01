#include "experiments/tandem/search/knowledge_json.hpp"

#include <algorithm>
#include <charconv>
#include <iterator>
#include <nlohmann/json.hpp>

#include "experiments/tandem/study/outcome.hpp"
#include "models/stack/resolve.hpp"

namespace tandem::search {

namespace {

using nlohmann::json;

[[noreturn]] void refuse(const std::string& file, const std::string& field) {
  throw ConfigError(Problem{file, field, "", "does not belong to this search", "remove the file and run its search again"});
}

/// Appends numbers to a list. A file of a large search has millions, for which a tree of JSON values takes too long.
template <class... Numbers>
void add(std::string& list, Numbers... numbers) {
  const auto one = [&](auto number) {
    char text[32];
    if (list.back() != '[') list += ',';
    list.append(text, std::to_chars(std::begin(text), std::end(text), number).ptr);
  };
  (one(numbers), ...);
}

/// Reads a flat list of numbers as rows.
class Rows {
 public:
  Rows(const json& list, std::size_t width, const std::string& file, std::string field)
      : list_(list), width_(width), file_(file), field_(std::move(field)) {
    if (!list.is_array() || list.size() % width != 0) refuse(file, field_);
  }
  std::size_t count() const { return list_.size() / width_; }
  std::int64_t at(std::size_t row, std::size_t column) const { return list_[row * width_ + column].get<std::int64_t>(); }
  double real(std::size_t row, std::size_t column) const { return list_[row * width_ + column].get<double>(); }
  /// A number from 0 to `end` - 1.
  std::int64_t below(std::size_t row, std::size_t column, std::int64_t end) const {
    const std::int64_t out = at(row, column);
    if (out < 0 || out >= end) refuse(file_, field_);
    return out;
  }

 private:
  const json& list_;
  std::size_t width_;
  const std::string& file_;
  std::string field_;
};

/// Each row is a run of groups with the same fact: the first group, their number, the fact. Most groups are refused for the same reason
/// as their neighbours.
void write_facts(std::string& out, const Knowledge& k) {
  const std::vector<GroupFact>& facts = k.facts;
  for (std::size_t begin = 0, end = 0; begin < facts.size(); begin = end) {
    const GroupFact& f = facts[begin];
    for (end = begin + 1; end < facts.size() && facts[end] == f;) ++end;
    if (f.known) add(out, begin, end - begin, static_cast<int>(f.outcome), f.floor_ps, f.large, f.sharp ? 1 : 0);
  }
}

void read_facts(const Rows& rows, const Space& space, Knowledge& out) {
  out.facts.resize(static_cast<std::size_t>(space.groups()));
  for (std::size_t r = 0; r < rows.count(); ++r) {
    const auto begin = out.facts.begin() + rows.below(r, 0, space.groups());
    const std::int64_t run = rows.below(r, 1, out.facts.end() - begin + 1);
    std::fill(begin, begin + run, GroupFact{rows.at(r, 3), static_cast<std::int32_t>(rows.below(r, 4, space.members() + 1)),
                                            static_cast<Outcome>(rows.below(r, 2, static_cast<std::int64_t>(kOutcomes))), true,
                                            rows.at(r, 5) != 0});
  }
}

constexpr auto kOutsides = static_cast<std::int64_t>(sim::Outside::paired) + 1;

void read_found(const Rows& rows, const Space& space, Knowledge& out) {
  for (std::size_t r = 0; r < rows.count(); ++r)
    out.found.push_back({rows.below(r, 0, space.size()), rows.at(r, 1), rows.at(r, 2), rows.at(r, 3), rows.at(r, 4),
                         static_cast<sim::Outside>(rows.below(r, 5, kOutsides)), rows.at(r, 6) != 0});
}

void read_refined(const Rows& rows, const Space& space, Knowledge& out) {
  for (std::size_t r = 0; r < rows.count(); ++r)
    out.refined[rows.below(r, 0, space.size())] = {
        rows.at(r, 1), rows.at(r, 2), static_cast<sim::Outside>(rows.below(r, 3, kOutsides)), rows.at(r, 4) != 0};
}

void read_simulated(const Rows& rows, const Space& space, Knowledge& out) {
  for (std::size_t r = 0; r < rows.count(); ++r) {
    const CandidateId id = rows.below(r, 0, space.size());
    out.simulated[id] = {id, rows.at(r, 1), rows.real(r, 2), rows.real(r, 3), rows.at(r, 4),
                         rows.at(r, 5) != 0, rows.at(r, 6) != 0, rows.real(r, 7), rows.real(r, 8), rows.real(r, 9)};
  }
}

}  // namespace

json question_json(const Search& search) {
  const Space& space = search.judge().space();
  const Plan plan = space.plan(0);
  json axes = json::object();
  for (const Axis& a : space.axes())
    for (const AxisValue& v : a.values) axes[a.field].push_back(v.text);
  return {{"plan", json::parse(space.question().document)},
          {"stack", plan.stack.name + "@" + text_of(plan.stack.as_of)},
          {"axes", axes},
          {"any_stack", search.options().any_stack},
          {"content", study::digest(study::whole_text(plan))}};
}

std::string knowledge_text(const Knowledge& k) {
  std::string out = "{\"facts\":[";
  write_facts(out, k);
  out += "],\"groups\":[";
  for (const auto& [g, counts] : k.groups) {
    add(out, g);
    for (const std::int64_t n : counts) add(out, n);
  }
  out += "],\"found\":[";
  for (const Found& f : k.found)
    add(out, f.id, f.floor_ps, f.estimate_ps, f.memory, f.memory_floor, static_cast<int>(f.outside), f.rough ? 1 : 0);
  out += "],\"refined\":[";
  for (const auto& [id, r] : k.refined) add(out, id, r.estimate_ps, r.memory, static_cast<int>(r.outside), r.too_large ? 1 : 0);
  out += "],\"simulated\":[";
  for (const auto& [id, s] : k.simulated)
    add(out, id, s.time_ps, s.low_s, s.high_s, s.needed, s.fits ? 1 : 0, s.timed ? 1 : 0, s.tokens_per_s, s.mfu, s.launches);
  json wider = json::array();
  for (const auto& [id, s] : k.simulated) wider.push_back(s.wider);
  return out + "],\"wider\":" + wider.dump() + "}";
}

Knowledge read_knowledge(const json& kept, const Space& space, const std::string& file) {
  Knowledge out;
  read_facts(Rows(kept.at("facts"), 6, file, "facts"), space, out);
  const Rows groups(kept.at("groups"), 1 + kOutcomes, file, "groups");
  for (std::size_t r = 0; r < groups.count(); ++r) {
    Counts& counts = out.groups[groups.below(r, 0, space.groups())];
    for (std::size_t f = 0; f < kOutcomes; ++f) counts[f] = groups.below(r, 1 + f, space.members() + 1);
  }
  read_found(Rows(kept.at("found"), 7, file, "found"), space, out);
  read_refined(Rows(kept.at("refined"), 5, file, "refined"), space, out);
  read_simulated(Rows(kept.at("simulated"), 10, file, "simulated"), space, out);
  std::size_t i = 0;
  for (auto& [id, s] : out.simulated) s.wider = kept.at("wider").at(i++).get<std::string>();
  return out;
}

}  // namespace tandem::search
