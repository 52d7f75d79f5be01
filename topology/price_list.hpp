#pragma once
// Prices of devices as data: topology/budget/prices.json.

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tandem {

enum class PriceKind { on_demand, reserved, spot };

/// "on_demand", "reserved", "spot".
std::string_view name(PriceKind kind);
std::vector<std::string> price_kinds();
std::optional<PriceKind> price_kind(std::string_view name);

/// One provider's price for an hour of one device on a day.
struct Offer {
  std::string device;                 ///< name of the device's preset
  PriceKind kind = PriceKind::on_demand;
  std::string provider, instance;
  std::vector<std::string> clusters;  ///< cluster presets of this instance
  double device_hour = 0;             ///< price of a device for an hour, in PriceList::currency
  std::chrono::sys_days date;
  std::string date_text, source, note;
  bool list_price = false;            ///< the provider's public price; else quoted by somebody else
  std::int64_t devices = 1;           ///< devices of the instance
};

struct PriceList {
  std::string file, currency;
  std::vector<Offer> offers;
};

/// Reads topology/budget/prices.json. Throws ConfigError.
PriceList load_price_list();

/// The device to rent, and acceptable offers.
struct WantedPrice {
  std::string device;            ///< a device preset
  std::string cluster;           ///< a cluster preset; its offers come before all others
  std::vector<PriceKind> kinds;  ///< the first kind with an offer is taken
  std::string provider;          ///< empty: any
};

/// The cheapest offer of the first kind that has one; null if none has.
const Offer* cheapest(const PriceList& list, const WantedPrice& wanted);

/// Kinds that the device has an offer of, in the order of the enum.
std::vector<PriceKind> kinds_of(const PriceList& list, const std::string& device);

}  // namespace tandem
