#include "tests/hostcuda/runtime/lane.hpp"

#include <chrono>
#include <exception>
#include <thread>

#include "tests/hostcuda/runtime/errors.hpp"
#include "tests/hostcuda/runtime/heap.hpp"
#include "tests/hostcuda/runtime/issue.hpp"
#include "tests/hostcuda/runtime/point.hpp"
#include "tests/hostcuda/runtime/settings.hpp"

namespace tandem::hostcuda {
namespace {

std::atomic<std::uint64_t> numbered = 0;

}  // namespace

void renumber() { numbered = 0; }

Pace::Pace(std::uint64_t number) : number_(number), random_(settings().seed * 0x9E3779B97F4A7C15u + number) {}

void Pace::lag() {
  const auto sleep = [](std::uint64_t us) { std::this_thread::sleep_for(std::chrono::microseconds(us)); };
  if (static_cast<std::int64_t>(number_) == settings().slow_stream) return sleep(500);
  if (!settings().lags) return;
  const std::uint64_t drawn = random_();
  if (drawn % 128 == 0) sleep(400 + (drawn >> 8) % 800);
  else if (drawn % 16 == 1) sleep(20 + (drawn >> 8) % 100);
}

void perform(const Work& work) {
  if (failed()) return;
  try {
    const Opened memory;
    work();
  } catch (const std::exception& e) {
    fail(e.what());
  }
}

struct Lane::Item {
  Work work;
  std::atomic<Item*> next{nullptr};
};

struct Lane::Shared {
  std::atomic<std::uint32_t> unkicked{0};
  std::atomic<std::uint32_t> pushed{0};
  Item* first = nullptr;  ///< already done
};

Lane::Lane() : shared_(std::make_shared<Shared>()), last_(new Item) { shared_->first = last_; }

Lane::~Lane() {
  if (started_) push(nullptr);
  else delete last_;
}

void Lane::push(Work work) {
  const std::lock_guard lock(mutex_);
  auto* item = new Item{std::move(work), {nullptr}};
  const bool ends = !item->work;  // the lane's thread may free the item at once
  last_->next.store(item, std::memory_order_release);
  last_ = item;
  shared_->pushed.fetch_add(1, std::memory_order_release);
  constexpr std::uint32_t kMost = 64;
  if (shared_->unkicked.fetch_add(1, std::memory_order_relaxed) >= kMost || ends) kick();
  if (started_) return;
  started_ = true;
  number_ = static_cast<std::int64_t>(numbered.fetch_add(1, std::memory_order_relaxed));
  std::thread(serve, shared_, number_).detach();
}

void Lane::kick() {
  if (shared_->unkicked.exchange(0, std::memory_order_relaxed) > 0) wake(shared_->pushed);
}

bool Lane::used() const {
  const std::lock_guard lock(mutex_);
  return started_;
}

std::int64_t Lane::number() const {
  const std::lock_guard lock(mutex_);
  return number_;
}

void Lane::serve(std::shared_ptr<Shared> shared, std::uint64_t number) {
  Pace pace(number);
  std::unique_ptr<Item> at(shared->first);
  for (std::uint32_t taken = 0;; ++taken) {
    while (shared->pushed.load(std::memory_order_acquire) == taken) sleep_on(shared->pushed, taken);
    at.reset(at->next.load(std::memory_order_acquire));
    if (!at->work) return;
    pace.lag();
    at->work();
    at->work = [] {};
  }
}

}  // namespace tandem::hostcuda
