#pragma once
// How a measurement ends that is no longer wanted.

#include <functional>
#include <stdexcept>

namespace tandem::exec {

/// Thrown by a measurement that was stopped before its table was whole.
class MeasuringStopped : public std::runtime_error {
 public:
  MeasuringStopped() : std::runtime_error("interrupted") {}
};

/// Throws MeasuringStopped where `stop` says so; it may be empty.
inline void end_where_stopped(const std::function<bool()>& stop) {
  if (stop && stop()) throw MeasuringStopped();
}

}  // namespace tandem::exec
