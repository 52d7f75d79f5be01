#pragma once
// Small messages between processes, all of one length.

#include <cstdint>
#include <string>

#include "models/ops/op.hpp"

namespace tandem::exec {

/// What one end says of a collective or a message when it comes to it.
struct CallName {
  Collective op{};        ///< of a message its elements are bytes, and the rest is nothing
  std::int64_t tag = -1;  ///< of a message
  bool message = false;
};

struct Frame {
  enum class Kind : std::int32_t {
    arrival,   ///< rank `from` has come to a call that rank `to` takes part in
    alive,     ///< nothing but that
    ask,       ///< what rank `to` waits for
    answer,    ///< the same, with a body
    report,    ///< a failure, with a body, to process 0
    verdict,   ///< the failure that counts, with a body
    leave,     ///< nothing follows; `number` is the exit code
  };
  Frame() = default;
  explicit Frame(Kind what) : kind(what) {}

  Kind kind = Kind::alive;
  std::int32_t from = -1, to = -1;  ///< ranks
  std::uint32_t channel = 0;
  std::int64_t at = 0;              ///< nanoseconds of process 0's clock
  std::int64_t number = 0;
  std::uint64_t body = 0;           ///< bytes that follow on another tag
  CallName call{};
};

/// Why a run of several processes ends before its time.
struct Failure {
  enum class Kind : std::int32_t { device, comm, contract, other };
  Kind kind = Kind::comm;
  std::int32_t rank = -1;           ///< which failed; -1: no single one
  std::int64_t step = 0;
  bool evaluation = false;
  std::string reason;
  std::string text;                 ///< all of it for a person
  int process = -1;                 ///< that is dead, stopped or cannot be reached; -1: none
};

}  // namespace tandem::exec
