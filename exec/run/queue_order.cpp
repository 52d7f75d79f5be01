#include "exec/run/queue_order.hpp"

namespace tandem::exec {

QueueOrder::QueueOrder(Backend& backend, const StepOrder& order, Performing how)
    : backend_(backend), order_(order), how_(how), marks_(order.tasks()) {
  queues_[static_cast<std::size_t>(Stream::compute)] = &backend.queue(Stream::compute);  // inputs go through it
  for (std::uint32_t n = 0; n < order.tasks(); ++n) {
    if (!queued(n)) continue;
    const Stream stream = order.task(order.ref(n)).stream;
    queues_[static_cast<std::size_t>(stream)] = &backend.queue(stream);
    if (order.awaited(n, how_)) marks_[n].end = backend.make_mark();
  }
}

Queue& QueueOrder::queue_of(std::uint32_t number) const {
  return *queues_[static_cast<std::size_t>(order_.task(order_.ref(number)).stream)];
}

void QueueOrder::record(bool wanted) {
  record_ = wanted;
  if (!wanted) return;
  for (std::uint32_t n = 0; n < marks_.size(); ++n) {
    if (!queued(n)) continue;
    if (!marks_[n].begin) marks_[n].begin = backend_.make_mark();
    if (!marks_[n].end) marks_[n].end = backend_.make_mark();
  }
}

void QueueOrder::issue(std::uint32_t number, const std::function<void(Queue&)>& work) {
  Queue& queue = queue_of(number);
  Marks& mine = marks_[number];
  for (const auto awaited : order_.waits(number, how_))
    if (queued(awaited)) queue.wait(*marks_[awaited].end);
  if (record_) queue.mark(*mine.begin);
  work(queue);
  if (mine.end) queue.mark(*mine.end);
}

void QueueOrder::meet(std::uint32_t number) {
  for (const auto awaited : order_.waits(number, how_))
    if (queued(awaited)) marks_[awaited].end->wait();
  const auto own = queues_[static_cast<std::size_t>(order_.task(order_.ref(number)).stream)];
  if (own != nullptr) own->finish();  // earlier tasks of the same stream
}

void QueueOrder::finish() {
  for (Queue* q : queues_)
    if (q != nullptr) q->finish();
}

void QueueOrder::settle() noexcept {
  for (Queue* q : queues_) try {
      if (q != nullptr) q->finish();
    } catch (...) {  // the failure was reported at the first wait for it
    }
}

QueueOrder::Times QueueOrder::times(std::uint32_t number) const {
  return {marks_[number].begin->reached(), marks_[number].end->reached()};
}

}  // namespace tandem::exec
