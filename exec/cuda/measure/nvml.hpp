#pragma once
// A card's properties from NVIDIA's management library (NVML). Everything is optional: without the library results are empty.

#include <optional>
#include <string>

#include "exec/cuda/library.hpp"

namespace tandem::exec::cuda {

class Nvml {
 public:
  /// For the card at this PCI address ("0000:1b:00.0"); empty: the first card.
  explicit Nvml(const std::string& pci_address);
  std::string driver() const;                      ///< e.g. "580.159.04", or ""
  std::optional<double> used_bytes() const;        ///< device memory in use, by all processes
  std::optional<double> clock_hz() const;          ///< present clock of the multiprocessors
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
