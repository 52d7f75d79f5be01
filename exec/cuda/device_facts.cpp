#include "exec/cuda/device_facts.hpp"

#include <cctype>

#include "exec/cuda/resources.hpp"

namespace tandem::exec::cuda {
namespace {

std::string version_text(int v) {  // 13000 is 13.0
  return std::to_string(v / 1000) + "." + std::to_string(v % 1000 / 10);
}

double attribute(cudaDeviceAttr key, double unit) {
  int value = 0;
  check(cudaDeviceGetAttribute(&value, key, 0), "asking for an attribute of the device");
  return value * unit;
}

}  // namespace

DeviceFacts require_device() {
  int count = 0;
  const cudaError_t code = cudaGetDeviceCount(&count);
  if (code != cudaSuccess || count == 0)
    throw DeviceError(std::string("no CUDA device: ") + (code == cudaSuccess ? "none is installed" : cudaGetErrorString(code)) +
                      "; run where a GPU and its driver are, or use cpu");
  DeviceFacts facts;
  cudaDeviceProp p{};
  check(cudaGetDeviceProperties(&p, 0), "asking for the device's properties");
  facts.card = p.name;
  facts.major = p.major;
  facts.minor = p.minor;
  char pci[32] = "";
  check(cudaDeviceGetPCIBusId(pci, sizeof pci, 0), "asking for the device's address");
  facts.pci = pci;
  int version = 0;
  check(cudaDriverGetVersion(&version), "asking for the driver's version");
  facts.driver = version_text(version);
  check(cudaRuntimeGetVersion(&version), "asking for the runtime's version");
  facts.runtime = version_text(version);
  const char* how = "as the CUDA runtime reports it";
  facts.figures = {{"multiprocessors", static_cast<double>(p.multiProcessorCount), "1", how},
                   {"memory", static_cast<double>(p.totalGlobalMem), "B", how},
                   {"l2_cache", static_cast<double>(p.l2CacheSize), "B", how},
                   {"clock_most", attribute(cudaDevAttrClockRate, 1e3), "Hz", how},
                   {"memory_clock_most", attribute(cudaDevAttrMemoryClockRate, 1e3), "Hz", how}};
  return facts;
}

std::string slug(const std::string& card) {
  std::string out;
  for (const char c : card)
    out += std::isalnum(static_cast<unsigned char>(c)) ? static_cast<char>(std::tolower(static_cast<unsigned char>(c))) : '-';
  return out;
}

}  // namespace tandem::exec::cuda
