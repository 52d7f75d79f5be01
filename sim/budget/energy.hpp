#pragma once
// Energy and power of a training.

namespace tandem::sim {

/// Watts of one device with its share of the host, its fans and its network cards.
struct PowerDraw {
  double busy_w = 0, idle_w = 0;
  double host_busy_w = 0, host_idle_w = 0;
  double busy() const { return busy_w + host_busy_w; }
  double idle() const { return idle_w + host_idle_w; }
};

/// Device hours of a training by what the devices do.
struct DeviceHours {
  double busy = 0;  ///< steps and saves, counted or lost
  double idle = 0;  ///< detection and restart; spares
};

/// Energy in kWh: (busy hours x busy watts + idle hours x idle watts) x `pue` / 1000. `pue` (power usage effectiveness) is the
/// power of the building divided by that of the machines, at least 1.
double energy_kwh(const PowerDraw& draw, const DeviceHours& hours, double pue);

/// Power in kW of the building while all `devices` are busy.
double peak_kw(const PowerDraw& draw, double devices, double pue);

}  // namespace tandem::sim
