#include "exec/communicator/communicator.hpp"

#include "models/base/error.hpp"

namespace tandem::exec {
namespace {

[[noreturn]] void refuse() { throw ContractError("this communicator blocks: it issues nothing to queues"); }

}  // namespace

void Communicator::issue(const Collective&, const Participants&, const MemberBuffers&, Queue&) { refuse(); }
void Communicator::issue_send(std::span<const std::byte>, Rank, const MessageName&, Queue&) { refuse(); }
void Communicator::issue_recv(std::span<std::byte>, Rank, const MessageName&, Queue&) { refuse(); }

}  // namespace tandem::exec
