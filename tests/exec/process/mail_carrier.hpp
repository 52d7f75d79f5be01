#pragma once
// A carrier between "processes" that are threads of a test, without MPI or Gloo.

#include <memory>
#include <vector>

#include "exec/process/local_mail.hpp"

namespace tandem::exec::tests {

/// State shared by the processes: a mailbox from each to each.
using Ways = std::vector<std::vector<std::unique_ptr<LocalMail>>>;

inline std::shared_ptr<Ways> make_ways(int processes) {
  auto ways = std::make_shared<Ways>(static_cast<std::size_t>(processes));
  for (auto& from : *ways)
    for (int p = 0; p < processes; ++p) from.push_back(std::make_unique<LocalMail>());
  return ways;
}

class MailCarrier final : public Carrier {
 public:
  MailCarrier(std::shared_ptr<Ways> ways, int process) : ways_(std::move(ways)), process_(process) {}
  int process() const override { return process_; }
  int processes() const override { return static_cast<int>(ways_->size()); }
  std::unique_ptr<Transfer> send(int to, Tag tag, std::span<const std::byte> bytes) override {
    return way(process_, to).send(tag, bytes);
  }
  std::unique_ptr<Transfer> receive(int from, Tag tag, std::span<std::byte> bytes) override {
    return way(from, process_).receive(tag, bytes);
  }
  void abort(const std::string& cause) override {
    for (int p = 0; p < processes(); ++p) way(p, process_).abort(cause);  // what comes here; the others end theirs
  }
  void close() override {}

 private:
  LocalMail& way(int from, int to) { return *(*ways_)[static_cast<std::size_t>(from)][static_cast<std::size_t>(to)]; }

  std::shared_ptr<Ways> ways_;
  int process_;
};

}  // namespace tandem::exec::tests
