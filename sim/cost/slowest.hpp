#pragma once
// Devices of one kind are not equally fast, and those that work in step wait for the slowest.

#include <cstdint>

namespace tandem::sim {

/// Time of the slowest of `devices` by that of the mean one, whose times of one piece of arithmetic are normally distributed with the
/// standard deviation `spread` (a share, `Calibration::spread`): 1 + spread times the expected largest of so many standard normal deviates, by
/// Blom's approximation (Statistical Estimates and Transformed Beta-Variables, 1958: the quantile of (n - 3/8) / (n + 1/4)),
/// 4.5 % more than exact for two, 2 % for four, under 1 % from eight on. 1 for one device.
double slowest_of(std::int64_t devices, double spread);

}  // namespace tandem::sim
