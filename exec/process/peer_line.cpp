#include "exec/process/peer_line.hpp"

#include <utility>

#include "exec/process/places.hpp"

namespace tandem::exec {

PeerLine::PeerLine(Carrier& carrier, int peer, LineEvents events) : carrier_(carrier), peer_(peer), events_(std::move(events)) {
  threads_.start([this] { hear(); });
  threads_.start([this] { speak(); });
}

PeerLine::~PeerLine() { end(); }

void PeerLine::end() {
  const std::lock_guard lock(mutex_);
  ended_ = true;
  pushed_.notify_one();
}

void PeerLine::say(Frame frame, Bytestring body) {
  frame.body = body.size();
  const std::lock_guard lock(mutex_);
  if (ended_) return;
  queue_.push_back({frame, std::move(body)});
  pushed_.notify_one();
}

void PeerLine::hear() {
  try {
    for (bool more = true; more;) {
      Frame frame;
      carrier_.receive(peer_, kFrameTag, std::as_writable_bytes(std::span(&frame, 1)))->wait();
      heard_at_ = std::chrono::steady_clock::now();
      Bytestring body(frame.body);
      if (!body.empty()) carrier_.receive(peer_, kBodyTag, body)->wait();
      more = events_.heard(frame, body);
    }
  } catch (const PeerLost&) {
    events_.lost();
  } catch (const CommError&) {  // the carrier was aborted
  }
}

void PeerLine::flush_until(std::chrono::steady_clock::time_point end) {
  std::unique_lock lock(mutex_);
  flushed_.wait_until(lock, end, [&] { return mute_ || (queue_.empty() && !sending_); });
}

bool PeerLine::next(Message& message) {
  std::unique_lock lock(mutex_);
  sending_ = false;
  if (queue_.empty()) flushed_.notify_all();
  pushed_.wait(lock, [&] { return ended_ || !queue_.empty(); });
  if (queue_.empty()) return false;
  message = std::move(queue_.front());
  queue_.pop_front();
  sending_ = true;
  return true;
}

// A failed send is ignored here, because the receiving thread also notices that the peer is lost.
void PeerLine::speak() {
  try {
    for (Message m; next(m);) {
      carrier_.send(peer_, kFrameTag, std::as_bytes(std::span(&m.frame, 1)))->wait();
      if (!m.body.empty()) carrier_.send(peer_, kBodyTag, m.body)->wait();
    }
  } catch (const CommError&) {
  }
  const std::lock_guard lock(mutex_);
  mute_ = true;
  flushed_.notify_all();
}

}  // namespace tandem::exec
