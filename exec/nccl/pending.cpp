#include "exec/nccl/pending.hpp"

namespace tandem::exec::nccl {

void Pending::add(cudaStream_t stream, Waiting call) {
  if (arrivals_ == nullptr) return;
  const std::lock_guard lock(mutex_);
  std::unique_ptr<cuda::Event> end;
  if (free_.empty()) end = std::make_unique<cuda::Event>(cudaEventDisableTiming);
  else end = std::move(free_.back()), free_.pop_back();
  end->record(stream);
  calls_[stream].push_back({std::move(end), std::move(call), nullptr});
}

bool Pending::look() {
  const std::lock_guard lock(mutex_);
  bool any = false;
  for (auto& [stream, calls] : calls_) {
    while (!calls.empty() && calls.front().end->reached()) {
      free_.push_back(std::move(calls.front().end));
      calls.pop_front();
    }
    if (calls.empty()) continue;
    any = true;
    if (!calls.front().shown) calls.front().shown = std::make_unique<Arrivals::Moving>(*arrivals_, calls.front().waiting);
  }
  return any;
}

}  // namespace tandem::exec::nccl
