// Declares the few functions that are used, because not every toolkit has nvml.h. Signatures: NVML API reference,
// https://docs.nvidia.com/deploy/nvml-api/.
#include "exec/cuda/measure/nvml.hpp"

namespace tandem::exec::cuda {
namespace {

constexpr int kSuccess = 0;
constexpr int kClockSm = 1, kClockMemory = 2;  // nvmlClockType_t
constexpr int kTemperatureGpu = 0;             // nvmlTemperatureSensors_t

struct Memory { unsigned long long total = 0, free = 0, used = 0; };  // nvmlMemory_t

}  // namespace

Nvml::Nvml(const std::string& pci_address) : library_("libnvidia-ml.so.1") {
  if (!library_ || library_.get<int (*)()>("nvmlInit_v2")() != kSuccess) return;
  const bool found = pci_address.empty()
                         ? library_.get<int (*)(unsigned, void**)>("nvmlDeviceGetHandleByIndex_v2")(0, &card_) == kSuccess
                         : library_.get<int (*)(const char*, void**)>("nvmlDeviceGetHandleByPciBusId_v2")(
                               pci_address.c_str(), &card_) == kSuccess;
  if (!found) card_ = nullptr;
}

template <class... Extra>
std::optional<double> Nvml::number(const char* function, double unit, Extra... extra) const {
  unsigned value = 0;
  if (!card_ || library_.get<int (*)(void*, Extra..., unsigned*)>(function)(card_, extra..., &value) != kSuccess)
    return std::nullopt;
  return value * unit;
}

std::string Nvml::driver() const {
  char text[80] = "";
  if (!card_ || library_.get<int (*)(char*, unsigned)>("nvmlSystemGetDriverVersion")(text, sizeof text) != kSuccess) return "";
  return text;
}

std::optional<double> Nvml::used_bytes() const {
  Memory memory;
  if (!card_ || library_.get<int (*)(void*, Memory*)>("nvmlDeviceGetMemoryInfo")(card_, &memory) != kSuccess) return std::nullopt;
  return static_cast<double>(memory.used);
}

std::optional<double> Nvml::clock_hz() const { return number("nvmlDeviceGetClockInfo", 1e6, kClockSm); }
std::optional<double> Nvml::memory_clock_hz() const { return number("nvmlDeviceGetClockInfo", 1e6, kClockMemory); }
std::optional<double> Nvml::power_watts() const { return number("nvmlDeviceGetPowerUsage", 1e-3); }
std::optional<double> Nvml::power_limit_watts() const { return number("nvmlDeviceGetEnforcedPowerLimit", 1e-3); }
std::optional<double> Nvml::temperature() const { return number("nvmlDeviceGetTemperature", 1, kTemperatureGpu); }

}  // namespace tandem::exec::cuda
