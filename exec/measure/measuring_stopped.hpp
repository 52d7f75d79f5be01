#pragma once
// The exception that ends a measurement early.

#include <functional>
#include <stdexcept>

namespace tandem::exec {

/// Thrown if a measurement is stopped before its table is complete.
class MeasuringStopped : public std::runtime_error {
 public:
  MeasuringStopped() : std::runtime_error("interrupted") {}
};

/// Throws MeasuringStopped if `stop` returns true. `stop` may be empty.
inline void end_where_stopped(const std::function<bool()>& stop) {
  if (stop && stop()) throw MeasuringStopped();
}

}  // namespace tandem::exec
