#pragma once
// Messages between ranks of one process, with the interface of a carrier.

#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>

#include "exec/process/carrier.hpp"

namespace tandem::exec {

/// Thread-safe. A tag identifies both ranks. Messages with one tag stay in order.
class LocalMail {
 public:
  std::unique_ptr<Transfer> send(Tag tag, std::span<const std::byte> bytes);
  std::unique_ptr<Transfer> receive(Tag tag, std::span<std::byte> bytes);
  /// Makes every present and later wait throw CommError.
  void abort(const std::string& cause);

  /// The sender's or receiver's end of a message.
  struct End {
    std::span<const std::byte> from;
    std::span<std::byte> to;
    bool done = false;
  };
  void wait(const End& end);

 private:
  struct Box { std::deque<std::shared_ptr<End>> sent, wanted; };  ///< at most one of the two is not empty

  static void hand_over(End& sent, End& wanted);

  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<Tag, Box> boxes_;
  std::string cause_;
};

}  // namespace tandem::exec
