#include "sim/budget/energy.hpp"

namespace tandem::sim {

double energy_kwh(const PowerDraw& draw, const DeviceHours& hours, double pue) {
  return (hours.busy * draw.busy() + hours.idle * draw.idle()) * pue / 1000;
}

double peak_kw(const PowerDraw& draw, double devices, double pue) { return devices * draw.busy() * pue / 1000; }

}  // namespace tandem::sim
