#pragma once
// What the driver's management library says of a card. All of it is optional: without the library the answers are empty.

#include <optional>
#include <string>

#include "exec/cuda/library.hpp"

namespace tandem::exec::cuda {

class Nvml {
 public:
  /// Of the card at this PCI address ("0000:1b:00.0"); empty address: the first card.
  explicit Nvml(const std::string& pci_address);
  std::string driver() const;                      ///< e.g. "580.159.04", or ""
  std::optional<double> used_bytes() const;        ///< device memory in use, by everybody
  std::optional<double> clock_hz() const;          ///< of the multiprocessors, now
  std::optional<double> memory_clock_hz() const;
  std::optional<double> power_watts() const;
  std::optional<double> power_limit_watts() const;
  std::optional<double> temperature() const;       ///< degrees Celsius

 private:
  template <class... Extra>
  std::optional<double> number(const char* function, double unit, Extra... extra) const;
  Library library_;
  void* card_ = nullptr;
};

}  // namespace tandem::exec::cuda
