#pragma once
// Connects processes that know one common address: process 0 listens there and the others connect to it.

#include <chrono>
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

/// Throws CommError if a process does not arrive within the timeout, LaunchError if processes contradict each other.
class TcpGathering {
 public:
  TcpGathering(const LaunchSpec& spec, std::chrono::milliseconds timeout);

  /// Returns what every process passed, by process.
  std::vector<Bytestring> exchange(const Bytestring& mine);
  /// The address at which other processes can reach this one.
  std::string own_address();

 private:
  using Deadline = std::chrono::steady_clock::time_point;

  void accept_all();
  void connect();
  bool try_connect();
  void welcome(Socket joined);
  void send(const Socket& to, const Bytestring& bytes) const;
  Bytestring receive(const Socket& from) const;
  void wait(int descriptor, short events) const;
  [[noreturn]] void give_up() const;
  std::string place() const { return spec_.address + ":" + std::to_string(spec_.port); }

  const LaunchSpec spec_;
  const std::chrono::milliseconds timeout_;
  const Deadline deadline_;
  std::string unknown_host_;    ///< why process 0's host has no address; empty: it has one
  std::vector<Socket> others_;  ///< at process 0: by process; elsewhere: only the connection to process 0
};

}  // namespace tandem::exec
