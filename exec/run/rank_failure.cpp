#include "exec/run/rank_failure.hpp"

#include <new>

#include "models/base/error.hpp"

namespace tandem::exec {

namespace {

std::string text_of(const std::exception_ptr& what) {
  try {
    std::rethrow_exception(what);
  } catch (const std::bad_alloc&) {
    return "the host has no memory left";
  } catch (const std::exception& e) {
    return e.what();
  } catch (...) {
    return "unknown failure";
  }
}

}  // namespace

std::string RankFailure::message() const {
  return "rank " + std::to_string(rank.value()) + " failed in " + (evaluation ? "the evaluation after " : "") + "step " +
         std::to_string(step) + ": " + reason;
}

bool FirstFailure::record(Rank rank, std::int64_t step, bool evaluation) {
  const std::exception_ptr what = std::current_exception();
  std::lock_guard lock(mutex_);
  if (what_) return false;
  what_ = what;
  failure_ = RankFailure{rank, step, evaluation, text_of(what)};
  return true;
}

void FirstFailure::rethrow() const {
  if (!what_) return;
  try {
    std::rethrow_exception(what_);
  } catch (const DeviceError&) {
    throw DeviceError(failure_->message());
  } catch (const std::bad_alloc&) {
    throw DeviceError(failure_->message());
  } catch (const ContractError&) {
    throw ContractError(failure_->message());
  }
}

}  // namespace tandem::exec
