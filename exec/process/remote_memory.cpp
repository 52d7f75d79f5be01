#include "exec/process/remote_memory.hpp"

#include <algorithm>

#include "models/base/error.hpp"

namespace tandem::exec {
namespace {

/// A read by process 0. rank -1: no more reads follow.
struct ReadRequest {
  std::int32_t rank = -1;
  std::size_t at = 0, bytes = 0;
};

}  // namespace

void RemoteMemory::read(std::size_t at, std::span<std::byte> to) const {
  control_.send(process_, Packer().add(ReadRequest{rank_.value(), at, to.size()}).take());
  const Bytestring bytes = control_.receive(process_);
  require(bytes.size() == to.size(), "another process served another number of bytes than were wanted");
  std::copy(bytes.begin(), bytes.end(), to.begin());
}

void RemoteMemory::write(std::size_t, std::span<const std::byte>) { throw ContractError("memory of another process is only read"); }

void RemoteMemory::fill(std::size_t, std::size_t, std::byte) { throw ContractError("memory of another process is only read"); }

void serve_memory(Control& control, const std::map<Rank, const Memory*>& arenas) {
  for (;;) {
    const Bytestring asked = control.receive(0);
    const auto request = Unpacker(asked).get<ReadRequest>();
    if (request.rank < 0) return;
    Bytestring bytes(request.bytes);
    arenas.at(Rank(request.rank))->read(request.at, bytes);
    control.send(0, bytes);
  }
}

void end_serving(Control& control) {
  for (int p = 1; p < control.processes(); ++p) control.send(p, Packer().add(ReadRequest{}).take());
}

}  // namespace tandem::exec
