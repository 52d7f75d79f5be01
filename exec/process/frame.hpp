#pragma once
// Small messages of fixed length between processes.

#include <cstdint>
#include <string>

#include "exec/process/activity.hpp"
#include "models/ops/op.hpp"

namespace tandem::exec {

/// Identifies the collective or message that a rank has arrived at.
struct CallName {
  Collective op{};        ///< for a message only `elements` is set: its bytes
  std::int64_t tag = -1;  ///< a message's tag; for a collective, the bytes sent to the receiver
  bool message = false;
};

struct Frame {
  enum class Kind : std::int32_t {
    arrival,   ///< rank `from` has arrived at a call together with rank `to`
    alive,     ///< only a sign of life
    ask,       ///< asks what rank `to` waits for
    answer,    ///< the reply to `ask`, in a body
    report,    ///< tells process 0 of a failure, in a body
    verdict,   ///< the failure that counts, in a body
    heard,     ///< the reply to `verdict`
    stop,      ///< the sender's ranks announce nothing more in this step, because of the failure in a body
    leave,     ///< the last message; `number` is the exit code
  };
  Frame() = default;
  explicit Frame(Kind what) : kind(what) {}

  Kind kind = Kind::alive;
  std::int32_t from = -1, to = -1;  ///< ranks
  std::uint32_t channel = 0;
  std::int64_t at = 0;              ///< nanoseconds of process 0's clock
  std::int64_t number = 0;
  std::uint64_t body = 0;           ///< length of the body that follows on another tag, in bytes
  CallName call{};
};

/// Why a run of several processes ends early.
struct Failure {
  enum class Kind : std::int32_t { device, comm, contract, other };
  Kind kind = Kind::comm;
  std::int32_t rank = -1;           ///< the rank that failed; -1: no single one
  std::int64_t step = 0;
  Activity during = Activity::training;
  std::string reason;
  std::string text;                 ///< the whole message for the user
  int process = -1;                 ///< the process that is dead, stopped or unreachable; -1: none
};

}  // namespace tandem::exec
