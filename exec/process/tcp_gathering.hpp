#pragma once
// How processes that know one address find each other: process 0 listens there, the others connect.

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

/// Throws CommError where something has not come within the time, and LaunchError where processes say what cannot be.
class TcpGathering {
 public:
  TcpGathering(const LaunchSpec& spec, std::chrono::milliseconds timeout);

  /// What each process gave, by process.
  std::vector<Bytestring> exchange(const Bytestring& mine);
  /// This process' address as others reach it.
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
  std::vector<Socket> others_;  ///< by process at process 0; elsewhere one, to process 0
};

}  // namespace tandem::exec
