// Asynchronous queues over a synchronous backend.
#include <array>
#include <mutex>
#include <utility>

#include "exec/backend/forwarding_backend.hpp"
#include "exec/cpu/async/async_queue.hpp"
#include "exec/cpu/backend.hpp"
#include "models/base/error.hpp"

namespace tandem::exec {
namespace {

class AsyncBackend final : public ForwardingBackend {
 public:
  AsyncBackend(std::unique_ptr<Backend> inner, Disturbance disturbance)
      : ForwardingBackend(std::move(inner)), name_(std::string(ForwardingBackend::name()) + "-async"),
        disturbance_(std::move(disturbance)) {
    if (auto disturb = disturbance_ ? disturbance_(Stream::host) : nullptr)
      late_ = [this, disturb] {
        std::lock_guard lock(late_mutex_);
        disturb();
      };
    require(!ForwardingBackend::asynchronous(), "asynchronous queues over asynchronous queues");
  }

  std::string_view name() const override { return name_; }
  bool asynchronous() const override { return true; }
  Queue& queue(Stream stream) override {
    std::lock_guard lock(mutex_);
    auto& place = queues_[static_cast<std::size_t>(stream)];
    if (!place)
      place = std::make_unique<cpu::AsyncQueue>(inner().queue(stream), disturbance_ ? disturbance_(stream) : nullptr);
    return *place;
  }
  std::unique_ptr<Mark> make_mark() override { return std::make_unique<cpu::AsyncMark>(late_); }

 private:
  std::string name_;
  Disturbance disturbance_;
  std::function<void()> late_;
  std::mutex late_mutex_;
  std::mutex mutex_;
  std::array<std::unique_ptr<cpu::AsyncQueue>, kStreams> queues_;  ///< last: their threads use the inner queues
};

}  // namespace

std::unique_ptr<Backend> make_async_backend(std::unique_ptr<Backend> inner, Disturbance disturbance) {
  return std::make_unique<AsyncBackend>(std::move(inner), std::move(disturbance));
}

std::unique_ptr<Backend> make_async_cpu_backend(std::int64_t threads) { return make_async_backend(make_cpu_backend(threads)); }

}  // namespace tandem::exec
