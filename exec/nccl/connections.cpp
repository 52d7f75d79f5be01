#include "exec/nccl/connections.hpp"

#include <time.h>

#include <cstring>

#include "models/base/error.hpp"

namespace tandem::exec::nccl {
namespace {

void nap() {
  const timespec time{0, 20'000};
  nanosleep(&time, nullptr);
}

ncclConfig_t nonblocking() {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  return config;
}

}  // namespace

std::string Connections::text_of(ncclResult_t result, ncclComm_t comm) const {
  const char* last = api_.GetLastError(comm);
  return std::string("NCCL: ") + api_.GetErrorString(result) + (last != nullptr && *last != '\0' ? std::string(": ") + last : "");
}

void Connections::require_well(ncclResult_t result, ncclComm_t comm) const {
  if (result != ncclSuccess && result != ncclInProgress) throw CommError(text_of(result, comm));
}

void Connections::throw_if_aborted() const {
  if (aborted_) throw CommError(cause_);
}

void Connections::require_whole() const {
  const std::lock_guard lock(mutex_);
  throw_if_aborted();
}

// The lock is released between checks, so that abort() can get it.
void Connections::settle(const ncclComm_t& comm) {
  for (;; nap()) {
    const std::lock_guard lock(mutex_);
    throw_if_aborted();
    if (comm == nullptr) continue;
    ncclResult_t state = ncclSuccess;
    require_well(api_.CommGetAsyncError(comm, &state), comm);
    require_well(state, comm);
    if (state == ncclSuccess) return;
  }
}

ncclComm_t Connections::join(Control& control, Rank rank, int ranks) {
  ncclUniqueId id{};
  if (control.first()) require_well(api_.GetUniqueId(&id), nullptr);
  const auto bytes = std::as_bytes(std::span(&id, 1));
  const Bytestring told = control.broadcast(Bytestring(bytes.begin(), bytes.end()));
  require(told.size() == sizeof id, "an id of NCCL of another size");
  std::memcpy(&id, told.data(), sizeof id);
  ncclComm_t comm = nullptr;
  {
    const std::lock_guard lock(mutex_);
    throw_if_aborted();
    ncclConfig_t config = nonblocking();
    require_well(api_.CommInitRankConfig(&comm, ranks, id, rank.value(), &config), nullptr);
    if (comm != nullptr) comms_.push_back(comm);
  }
  settle(comm);
  return comm;
}

ncclComm_t Connections::split(ncclComm_t whole, int color, int key) {
  ncclComm_t comm = nullptr;
  {
    const std::lock_guard lock(mutex_);
    throw_if_aborted();
    ncclConfig_t config = nonblocking();
    require_well(api_.CommSplit(whole, color, key, &comm, &config), whole);
  }
  settle(whole);
  if (color == NCCL_SPLIT_NOCOLOR) return nullptr;
  {
    const std::lock_guard lock(mutex_);
    throw_if_aborted();
    comms_.push_back(comm);
  }
  settle(comm);
  return comm;
}

void Connections::group(ncclComm_t comm, const std::function<void(const Api&)>& calls) {
  {
    const std::lock_guard lock(mutex_);
    throw_if_aborted();
    require_well(api_.GroupStart(), comm);
    try {
      calls(api_);
    } catch (...) {
      api_.GroupEnd();  // an open group would swallow all later calls of this thread
      throw;
    }
    require_well(api_.GroupEnd(), comm);
  }
  settle(comm);
}

void Connections::drain(cudaStream_t stream) {
  cuda::Event end(cudaEventDisableTiming);
  end.record(stream);
  for (; !end.reached(); nap()) require_whole();
  require_whole();
}

void Connections::abort(const std::string& cause) {
  {
    const std::lock_guard lock(mutex_);
    if (aborted_) return;
    cause_ = cause;
  }
  end();
}

void Connections::end() {
  const std::lock_guard lock(mutex_);
  aborted_ = true;
  for (const ncclComm_t comm : comms_) api_.CommAbort(comm);
  comms_.clear();
}

std::string Connections::error() const {
  const std::lock_guard lock(mutex_);
  for (const ncclComm_t comm : comms_) {
    ncclResult_t state = ncclSuccess;
    const ncclResult_t asked = api_.CommGetAsyncError(comm, &state);
    const ncclResult_t found = asked != ncclSuccess ? asked : state;
    if (found != ncclSuccess && found != ncclInProgress) return text_of(found, comm);
  }
  return "";
}

}  // namespace tandem::exec::nccl
