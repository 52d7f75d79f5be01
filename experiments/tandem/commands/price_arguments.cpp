#include "experiments/tandem/commands/price_arguments.hpp"

#include <cstdlib>
#include <vector>

#include "experiments/tandem/commands/arguments.hpp"
#include "reports/prediction/text.hpp"

namespace tandem::program {

namespace {

using Words = std::vector<std::string>;

constexpr double kMostPrice = 1e9;  // keeps all results finite

}  // namespace

CLI::Validator within(double least, double most, bool closed) {
  return CLI::Validator(
      [=](std::string& text) -> std::string {
        char* end = nullptr;
        const double value = std::strtod(text.c_str(), &end);
        const bool number = end != text.c_str() && *end == '\0' && value <= most && (closed ? value >= least : value > least);
        return number ? "" : text + " is no number " + (closed ? "from " : "above ") + number_text(least, 0) + (closed ? " to " : ", at most ") + CLI::detail::to_string(most);
      },
      "FLOAT");
}

std::pair<std::string, std::string> pair_of(const std::string& flag, const std::string& text) {
  const std::size_t middle = text.find('=');
  if (middle == 0 || middle == std::string::npos || middle + 1 == text.size())
    throw CLI::ValidationError(flag, text + " is not of the form NAME=VALUE");
  return {text.substr(0, middle), text.substr(middle + 1)};
}

void add_price(CLI::App& c, planning::PriceChoice& o) {
  const auto price = [&o](const Words& texts) {
    for (const std::string& text : texts) {
      const bool named = text.find('=') != std::string::npos;
      const auto [cluster, number] = named ? pair_of("--price", text) : std::pair(std::string(), text);
      std::string value = number;
      if (const std::string wrong = within(0, kMostPrice, false)(value); !wrong.empty()) throw CLI::ValidationError("--price", wrong);
      if (!o.device_hour.emplace(cluster, std::strtod(value.c_str(), nullptr)).second)
        throw CLI::ValidationError("--price", cluster.empty() ? "more than one price for every cluster: write decimals with a point (2.5), or CLUSTER=PRICE"
                                                              : cluster + " is given twice");
    }
  };
  c.add_option_function<Words>("--price", price, "price of a device hour, in any currency, or CLUSTER=PRICE for one of several [topology/budget/prices.json]")
      ->delimiter(',')
      ->type_name("PRICE,...");
  add_list(c, "--price-kind", o.kinds, "on_demand, reserved or spot: the first for which the device has a price [on_demand]");
  c.add_option("--provider", o.provider, "use this provider's prices only [all]")->type_name("NAME");
}

}  // namespace tandem::program
