#include "exec/process/control.hpp"

#include <limits>
#include <utility>

#include "exec/process/places.hpp"

namespace tandem::exec {
namespace {

constexpr int kRoundTrips = 32;

}  // namespace

void Control::send(int to, const Bytestring& bytes) {
  const std::uint64_t size = bytes.size();
  const auto head = carrier_->send(to, kControlTag, std::as_bytes(std::span(&size, 1)));
  const auto body = size > 0 ? carrier_->send(to, kControlTag, bytes) : nullptr;
  head->wait();
  if (body) body->wait();
}

Bytestring Control::receive(int from) {
  std::uint64_t size = 0;
  carrier_->receive(from, kControlTag, std::as_writable_bytes(std::span(&size, 1)))->wait();
  Bytestring bytes(size);
  if (size > 0) carrier_->receive(from, kControlTag, bytes)->wait();
  return bytes;
}

void Control::barrier() {
  gather({});
  broadcast({});
}

Bytestring Control::broadcast(Bytestring bytes) {
  if (!first()) return receive(0);
  for (int p = 1; p < processes(); ++p) send(p, bytes);
  return bytes;
}

std::vector<Bytestring> Control::gather(Bytestring bytes) {
  if (!first()) return send(0, bytes), std::vector<Bytestring>();
  std::vector<Bytestring> all{std::move(bytes)};
  for (int p = 1; p < processes(); ++p) all.push_back(receive(p));
  return all;
}

void Control::align(SharedClock& clock, const std::vector<bool>& same_machine) {
  for (int p = 1; p < processes(); ++p) {
    if (same_machine[static_cast<std::size_t>(p)]) continue;
    if (p == process()) clock.set_ahead(offset_to_first());
    for (int i = 0; first() && i < kRoundTrips; ++i) {
      receive(p);
      send(p, Packer().add(SharedClock::local_ns(SharedClock::Steady::now())).take());
    }
  }
}

std::int64_t Control::offset_to_first() {
  std::int64_t fastest = std::numeric_limits<std::int64_t>::max(), ahead = 0;
  for (int i = 0; i < kRoundTrips; ++i) {
    const std::int64_t asked = SharedClock::local_ns(SharedClock::Steady::now());
    send(0, {});
    const Bytestring answer = receive(0);
    const std::int64_t answered = SharedClock::local_ns(SharedClock::Steady::now());
    if (answered - asked >= fastest) continue;
    fastest = answered - asked;
    ahead = Unpacker(answer).get<std::int64_t>() - (asked + fastest / 2);
  }
  return ahead;
}

}  // namespace tandem::exec
