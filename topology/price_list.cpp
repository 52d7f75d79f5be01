#include "topology/price_list.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "models/base/json.hpp"
#include "models/base/presets.hpp"
#include "models/base/text.hpp"
#include "topology/fact_reader.hpp"

namespace tandem {
namespace {

using nlohmann::json;

constexpr std::array<std::string_view, 3> kKinds = {"on_demand", "reserved", "spot"};
constexpr double kLeastPrice = 1e-6;

std::string required_text(FactReader& r, const std::string& key) {
  const std::string text = r.text(key, "");
  if (text.empty()) r.refuse(key, "is missing or empty", "write a text");
  return text;
}

std::chrono::sys_days date_of(FactReader& r, const std::string& text) {
  int year = 0;
  unsigned month = 0, day = 0;
  char rest = 0;
  const bool three = text.size() == 10 && std::sscanf(text.c_str(), "%4d-%2u-%2u%c", &year, &month, &day, &rest) == 3;
  const std::chrono::year_month_day date{std::chrono::year(year), std::chrono::month(month), std::chrono::day(day)};
  if (!three || !date.ok()) r.refuse("date", "is no date", "write it like 2026-11-20");
  return date;
}

PriceKind kind_of(FactReader& r) {
  const auto kind = price_kind(required_text(r, "kind"));
  if (!kind) r.refuse("kind", "is no kind of price", "there are " + list_text(price_kinds()));
  return *kind;
}

std::vector<std::string> clusters_of(FactReader& r) {
  if (!r.has("clusters")) return {};
  const json& list = r.raw("clusters");
  const bool texts = list.is_array() && std::all_of(list.begin(), list.end(), [](const json& v) { return v.is_string(); });
  if (!texts) r.refuse("clusters", "must be a list of names of cluster presets");
  return list.get<std::vector<std::string>>();
}

Offer offer_of(FactReader& r) {
  Offer out;
  out.device = required_text(r, "device");
  out.kind = kind_of(r);
  out.provider = required_text(r, "provider");
  out.instance = required_text(r, "instance");
  out.clusters = clusters_of(r);
  out.devices = r.whole("devices", 1);
  out.device_hour = r.number("instance_hour", kLeastPrice) / static_cast<double>(out.devices);
  out.date_text = required_text(r, "date");
  out.date = date_of(r, out.date_text);
  out.source = required_text(r, "source");
  out.list_price = r.flag("list_price", false);
  out.note = r.text("note", "");
  r.finish();
  return out;
}

bool names(const Offer& offer, const std::string& cluster) {
  return std::find(offer.clusters.begin(), offer.clusters.end(), cluster) != offer.clusters.end();
}

/// Orders offers: those for the wanted cluster before all others, then by price.
bool better(const Offer& a, const Offer& b, const std::string& cluster) {
  if (names(a, cluster) != names(b, cluster)) return names(a, cluster);
  return a.device_hour < b.device_hour;
}

}  // namespace

std::string_view name(PriceKind kind) { return kKinds[static_cast<std::size_t>(kind)]; }

std::vector<std::string> price_kinds() { return {kKinds.begin(), kKinds.end()}; }

std::optional<PriceKind> price_kind(std::string_view name) {
  const auto at = std::find(kKinds.begin(), kKinds.end(), name);
  if (at == kKinds.end()) return std::nullopt;
  return static_cast<PriceKind>(at - kKinds.begin());
}

PriceList load_price_list() {
  PriceList out;
  out.file = require_data_file("topology/budget", "prices.json");
  const json file = read_json(out.file);
  std::vector<std::string> unverified;  // a price is a quotation, no fact
  FactReader reader(file, out.file, "", unverified);
  reader.text("describes", "");
  out.currency = required_text(reader, "currency");
  const json& offers = reader.raw("offers");
  if (!offers.is_array()) reader.refuse("offers", "must be a list");
  reader.finish();
  for (std::size_t i = 0; i < offers.size(); ++i) {
    FactReader offer(offers[i], out.file, "offers[" + std::to_string(i) + "]", unverified);
    out.offers.push_back(offer_of(offer));
  }
  return out;
}

const Offer* cheapest(const PriceList& list, const WantedPrice& wanted) {
  for (const PriceKind kind : wanted.kinds) {
    const Offer* best = nullptr;
    for (const Offer& o : list.offers) {
      const bool suits = o.device == wanted.device && o.kind == kind && (wanted.provider.empty() || o.provider == wanted.provider);
      if (suits && (best == nullptr || better(o, *best, wanted.cluster))) best = &o;
    }
    if (best != nullptr) return best;
  }
  return nullptr;
}

std::vector<PriceKind> kinds_of(const PriceList& list, const std::string& device) {
  std::vector<PriceKind> out;
  for (const PriceKind kind : {PriceKind::on_demand, PriceKind::reserved, PriceKind::spot})
    if (std::any_of(list.offers.begin(), list.offers.end(), [&](const Offer& o) { return o.device == device && o.kind == kind; }))
      out.push_back(kind);
  return out;
}

}  // namespace tandem
