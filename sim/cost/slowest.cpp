#include "sim/cost/slowest.hpp"

#include <boost/math/distributions/normal.hpp>

namespace tandem::sim {

double slowest_of(std::int64_t devices, double spread) {
  if (devices < 2 || spread == 0) return 1;
  const double n = static_cast<double>(devices);
  return 1 + spread * boost::math::quantile(boost::math::normal(), (n - 0.375) / (n + 0.25));
}

}  // namespace tandem::sim
