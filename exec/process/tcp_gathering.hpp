#pragma once
// Connects processes that know one common address: process 0 listens there and the others connect to it.

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "exec/process/launch.hpp"
#include "exec/process/packing.hpp"

namespace tandem::exec {

/// An open socket.
class Socket {
 public:
  explicit Socket(int descriptor = -1) : descriptor_(descriptor) {}
  Socket(Socket&& other) noexcept : descriptor_(other.release()) {}
  Socket& operator=(Socket&& other) noexcept;
  ~Socket();
  int get() const { return descriptor_; }
  int release();

 private:
  int descriptor_;
};

/// How long processes wait for each other, and what becomes of a message about a long wait.
struct JoinOptions {
  std::chrono::milliseconds timeout;
  std::function<void(const std::string&)> tell;  ///< called once, after some seconds, at process 0 and 1
};

/// Throws CommError if a process does not arrive within the timeout, LaunchError if processes contradict each other.
class TcpGathering {
 public:
  TcpGathering(const LaunchSpec& spec, JoinOptions options);

  /// Returns what every process passed, by process.
  std::vector<Bytestring> exchange(const Bytestring& mine);
  /// The address at which other processes can reach this one.
  std::string own_address();

 private:
  using Deadline = std::chrono::steady_clock::time_point;

  void accept_all();
  bool comes(int descriptor) const;
  std::string missing_text() const;
  void tell_wait(const std::string& what);
  void connect();
  bool try_connect();
  void welcome(Socket joined);
  void send(const Socket& to, const Bytestring& bytes) const;
  Bytestring receive(const Socket& from) const;
  void wait(int descriptor, short events) const;
  [[noreturn]] void give_up() const;
  std::string place() const { return spec_.address + ":" + std::to_string(spec_.port); }

  const LaunchSpec spec_;
  JoinOptions join_;            ///< without `tell` after its call
  const Deadline deadline_;
  const Deadline patience_;     ///< when a wait is told
  std::string unknown_host_;    ///< why process 0's host has no address; empty: it has one
  std::vector<Socket> others_;  ///< at process 0: by process; elsewhere: only the connection to process 0
};

}  // namespace tandem::exec
