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

Failure::Kind kind_of(const std::exception_ptr& what) {
  try {
    std::rethrow_exception(what);
  } catch (const DeviceError&) {
    return Failure::Kind::device;
  } catch (const std::bad_alloc&) {
    return Failure::Kind::device;
  } catch (const CommError&) {
    return Failure::Kind::comm;
  } catch (const ContractError&) {
    return Failure::Kind::contract;
  } catch (...) {
    return Failure::Kind::other;
  }
}

/// The words between "failed" and the step.
std::string before_step(Activity during) {
  switch (during) {
    case Activity::start: return "before ";
    case Activity::training: return "in ";
    case Activity::evaluation: return "in the evaluation after ";
    case Activity::saving: return "while it saved after ";
  }
  throw ContractError("unknown activity");
}

}  // namespace

std::string RankFailure::message() const {
  if (step < 0) return "rank " + std::to_string(rank.value()) + " failed in the evaluation: " + reason;  // nothing is trained
  return "rank " + std::to_string(rank.value()) + " failed " + before_step(during) + "step " + std::to_string(step) + ": " + reason;
}

bool FirstFailure::record(Rank rank, std::int64_t step, Activity during) {
  const std::exception_ptr what = std::current_exception();
  std::lock_guard lock(mutex_);
  if (what_) return false;
  what_ = what;
  failure_ = RankFailure{rank, step, during, text_of(what)};
  return true;
}

void FirstFailure::add_unsaved() {
  const std::exception_ptr why = std::current_exception();
  std::lock_guard lock(mutex_);
  failure_->reason += "; the last step could not be saved: " + text_of(why);
}

Failure FirstFailure::told() const {
  Failure f;
  f.kind = kind_of(what_);
  f.rank = failure_->rank.value(), f.step = failure_->step, f.during = failure_->during;
  f.reason = failure_->reason;
  f.text = f.kind == Failure::Kind::comm ? f.reason : failure_->message();
  return f;
}

void FirstFailure::adopt(const Failure& f) {
  if (const Failure own = told(); f.text == own.text && f.rank == own.rank) return;
  std::lock_guard lock(mutex_);
  take(f);
}

void FirstFailure::record(const Failure& f) {
  std::lock_guard lock(mutex_);
  if (what_) return;
  failure_ = RankFailure{Rank(), f.step, f.during, f.reason};
  take(f);
}

void FirstFailure::take(const Failure& f) {
  if (f.rank >= 0) failure_ = RankFailure{Rank(f.rank), f.step, f.during, f.reason};
  else failure_->rank = Rank(), failure_->reason = f.reason;
  switch (f.kind) {
    case Failure::Kind::device: what_ = std::make_exception_ptr(DeviceError(f.reason)); break;
    case Failure::Kind::contract: what_ = std::make_exception_ptr(ContractError(f.reason)); break;
    case Failure::Kind::comm: case Failure::Kind::other: what_ = std::make_exception_ptr(CommError(f.text)); break;
  }
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
