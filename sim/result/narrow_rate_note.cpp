#include "sim/result/narrow_rate_note.hpp"

namespace tandem::sim {

std::string narrow_rate_note(const Device& device, DType compute) {
  const auto narrow = device.peak.find(compute), wide = device.peak.find(DType::bf16);
  if (bits(compute) >= 16 || narrow == device.peak.end() || wide == device.peak.end()) return "";
  if (narrow->second.flops_per_second() > wide->second.flops_per_second()) return "";
  return "products in " + std::string(name(compute)) + " compute no faster than in bf16: " + device.name + " has no higher peak rate for them";
}

}  // namespace tandem::sim
