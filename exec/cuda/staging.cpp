#include "exec/cuda/staging.hpp"

#include <algorithm>
#include <cstring>

namespace tandem::exec::cuda {

void Staging::upload(std::byte* to, std::span<const std::byte> from, cudaStream_t stream) {
  if (from.empty()) return;
  Slot& slot = free_slot(from.size());
  std::memcpy(slot.bytes.data(), from.data(), from.size());
  check(cudaMemcpyAsync(to, slot.bytes.data(), from.size(), cudaMemcpyHostToDevice, stream), "copying to the device");
  slot.gone.record(stream);
}

Staging::Slot& Staging::free_slot(std::size_t bytes) {
  for (auto& slot : slots_)
    if (slot->bytes.size() >= bytes && slot->gone.reached()) return *slot;
  constexpr std::size_t kLeast = 4096;
  slots_.push_back(std::make_unique<Slot>());
  slots_.back()->bytes = Buffer(std::max(bytes, kLeast), Buffer::Where::host);
  return *slots_.back();
}

}  // namespace tandem::exec::cuda
