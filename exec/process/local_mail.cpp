#include "exec/process/local_mail.hpp"

#include <cstring>
#include <utility>

namespace tandem::exec {
namespace {

class LocalTransfer final : public Transfer {
 public:
  LocalTransfer(LocalMail& mail, std::shared_ptr<LocalMail::End> end) : mail_(mail), end_(std::move(end)) {}
  void wait() override { mail_.wait(*end_); }

 private:
  LocalMail& mail_;
  std::shared_ptr<LocalMail::End> end_;
};

}  // namespace

void LocalMail::hand_over(End& sent, End& wanted) {
  require(sent.from.size() == wanted.to.size(), "a message inside a process with two lengths");
  if (!sent.from.empty()) std::memcpy(wanted.to.data(), sent.from.data(), sent.from.size());
  sent.done = wanted.done = true;
}

std::unique_ptr<Transfer> LocalMail::send(Tag tag, std::span<const std::byte> bytes) {
  const auto end = std::make_shared<End>(End{bytes, {}});
  const std::lock_guard lock(mutex_);
  if (!cause_.empty()) throw CommError(cause_);
  Box& box = boxes_[tag];
  if (box.wanted.empty()) {
    box.sent.push_back(end);
  } else {
    hand_over(*end, *box.wanted.front());
    box.wanted.pop_front();
    changed_.notify_all();
  }
  return std::make_unique<LocalTransfer>(*this, end);
}

std::unique_ptr<Transfer> LocalMail::receive(Tag tag, std::span<std::byte> bytes) {
  const auto end = std::make_shared<End>(End{{}, bytes});
  const std::lock_guard lock(mutex_);
  if (!cause_.empty()) throw CommError(cause_);
  Box& box = boxes_[tag];
  if (box.sent.empty()) {
    box.wanted.push_back(end);
  } else {
    hand_over(*box.sent.front(), *end);
    box.sent.pop_front();
    changed_.notify_all();
  }
  return std::make_unique<LocalTransfer>(*this, end);
}

void LocalMail::wait(const End& end) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return end.done || !cause_.empty(); });
  if (!end.done) throw CommError(cause_);
}

void LocalMail::abort(const std::string& cause) {
  const std::lock_guard lock(mutex_);
  if (cause_.empty()) cause_ = cause;
  boxes_.clear();  // a woken thread may free its buffer
  changed_.notify_all();
}

}  // namespace tandem::exec
