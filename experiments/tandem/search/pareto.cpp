#include "experiments/tandem/search/pareto.hpp"

#include <algorithm>
#include <iterator>
#include <map>
#include <tuple>

#include "experiments/tandem/base/prepared_plan.hpp"
#include "experiments/tandem/planning/conditions.hpp"
#include "experiments/tandem/search/staircase.hpp"
#include "sim/result/error_book.hpp"

namespace tandem::search {

namespace {

constexpr double kPsPerHour = 3600e12;

/// The Pareto front of the bounds, fastest first.
std::vector<const Found*> front_of(std::vector<const Found*> rest) {
  std::sort(rest.begin(), rest.end(), [](const Found* a, const Found* b) {
    return std::tuple(a->least_ps(), a->least_memory(), a->id) < std::tuple(b->least_ps(), b->least_memory(), b->id);
  });
  std::vector<const Found*> out;
  for (const Found* f : rest)
    if (out.empty() || f->least_memory() < out.back()->least_memory()) out.push_back(f);
  return out;
}

/// See ParetoPoint::likely.
double likely_of(const Simulated& s, bool bound) {
  return bound ? sim::middle_of_range(s.low_s, s.high_s) / Duration::picoseconds(s.time_ps).seconds() : 1;
}

std::optional<double> times(double factor, const std::optional<double>& rate) {
  return rate ? std::optional(factor * *rate) : std::nullopt;
}

bool no_worse(const ParetoPoint& a, const ParetoPoint& b) {
  const auto x = a.figures(), y = b.figures();
  for (std::size_t i = 0; i < x.size(); ++i)
    if (x[i] > y[i]) return false;
  return true;
}

}  // namespace

Rates rates_of(const Space& space, const planning::PriceChoice& price) {
  static const planning::Facts facts = planning::load_facts();
  planning::Assessment a;
  a.candidate.file = space.question().file;
  a.plan = space.plan(0);
  planning::find_place(a);
  planning::Request request;
  request.price = price;
  const planning::Conditions c = planning::conditions_of(request, facts, a);
  Rates out;
  out.cluster = a.plan.cluster.preset;
  out.rented = planning::rented_devices(a, c.price, 0);
  if (c.price) out.price = c.price->device_hour, out.currency = c.price->currency;
  else out.no_price = planning::no_price(request, facts, a).message();
  if (c.power) out.kilowatts = sim::energy_kwh(c.power->draw, {1, 0}, c.power->pue);
  return out;
}

std::vector<std::string> left_out(const std::vector<Search*>& searches, const std::vector<Rates>& rates) {
  const bool cost = std::any_of(rates.begin(), rates.end(), [](const Rates& r) { return r.price.has_value(); });
  const bool energy = std::any_of(rates.begin(), rates.end(), [](const Rates& r) { return r.kilowatts.has_value(); });
  std::vector<std::string> out;
  const auto add = [&](bool others, const std::string& what, const std::string& cluster, const std::string& why) {
    std::string text = what + " is left out" + (others ? " of rows on " + cluster : "") + ": " + why;
    if (std::find(out.begin(), out.end(), text) == out.end()) out.push_back(std::move(text));  // once for all numbers of devices
  };
  for (std::size_t i = 0; i < searches.size(); ++i) {
    if (!rates[i].price) add(cost, "cost", rates[i].cluster, rates[i].no_price);
    if (!rates[i].kilowatts)
      add(energy, "energy", rates[i].cluster, "the watts of " + searches[i]->judge().topology().device().name + " are not known");
  }
  return out;
}

FrontSearch explore_front(Search& search) {
  search.estimate_front();
  FrontSearch out;
  Staircase met;
  const std::vector<Found> found = search.found();
  std::vector<const Found*> rest;
  for (const Found& f : found) rest.push_back(&f);
  for (std::int64_t timed = 0;;) {
    std::erase_if(rest, [&](const Found* f) {
      return out.simulated.count(f->id) != 0 || met.covers(f->least_ps(), f->least_memory());
    });
    if (rest.empty()) return out;
    std::vector<CandidateId> round;
    for (const Found* f : front_of(rest)) round.push_back(f->id);
    const std::int64_t left = search.options().events - timed;
    if (left <= 0) return out.complete = false, out;
    if (static_cast<std::int64_t>(round.size()) > left) round.resize(static_cast<std::size_t>(left));
    search.simulate(round);
    for (const CandidateId id : round) {
      const Simulated& s = out.simulated[id] = search.knowledge().simulated.at(id);
      timed += s.timed ? 1 : 0;
      if (s.fits) met.add(s.time_ps, s.needed);
    }
  }
}

ParetoFront pareto_front(const std::vector<Search*>& searches, std::vector<FrontSearch> searched, std::vector<Rates> rates) {
  ParetoFront out;
  out.rates = std::move(rates);
  for (const Rates& r : out.rates) out.cost = out.cost || r.price, out.energy = out.energy || r.kilowatts;
  std::vector<ParetoPoint> all;
  for (std::size_t i = 0; i < searches.size(); ++i) {
    out.complete = out.complete && searched[i].complete;
    out.interrupted = out.interrupted || searched[i].interrupted;
    out.answers.push_back(searched[i].interrupted ? searches[i]->answer_so_far(kNoLimit)
                                                  : searches[i]->answer_from(std::move(searched[i].simulated), kNoLimit));
    for (const Simulated& s : out.answers.back().best) {
      const double hours = static_cast<double>(s.time_ps) / kPsPerHour;
      const Rates& r = out.rates[i];
      all.push_back({i, s, times(hours * r.rented.paid(), r.price), times(hours * r.rented.used, r.kilowatts),
                     times(hours * r.rented.without_idle(), r.price), likely_of(s, searches[i]->judge().is_bound())});
    }
  }
  const auto key = [](const ParetoPoint& p) { return std::tuple(p.figures(), p.search, p.step.id); };
  std::sort(all.begin(), all.end(), [&](const ParetoPoint& a, const ParetoPoint& b) { return key(a) < key(b); });
  for (const ParetoPoint& p : all) {  // sorted so that a point that dominates another (or equals it with a lower id) comes first
    const bool beaten = std::any_of(out.points.begin(), out.points.end(), [&](const ParetoPoint& q) { return no_worse(q, p); });
    (beaten ? out.others : out.points).push_back(p);
  }
  return out;
}

}  // namespace tandem::search
