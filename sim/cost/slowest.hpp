#pragma once
// Devices of one kind differ in speed, and those that work in step wait for the slowest.

#include <cstdint>

namespace tandem::sim {

/// Ratio of the slowest device's arithmetic time to the mean one's; 1 for one device. Times are normally distributed with relative
/// standard deviation `spread` (`Calibration::spread`). The ratio is 1 + spread x the expected largest of so many standard normals,
/// by Blom's approximation (Statistical Estimates and Transformed Beta-Variables, 1958: the quantile of (n - 3/8) / (n + 1/4)).
/// That is 4.5 % too much for two devices, 2 % for four, under 1 % from eight on.
double slowest_of(std::int64_t devices, double spread);

}  // namespace tandem::sim
