#include "exec/process/tcp_gathering.hpp"

#include <arpa/inet.h>
#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <utility>

#include "models/base/text.hpp"
#include "models/base/threads.hpp"

namespace tandem::exec {
namespace {

using namespace std::chrono_literals;
constexpr std::uint64_t kMagic = 0x74616e64656d0001;  // "tandem", version 1
constexpr std::uint64_t kMostBytes = 1 << 26;
constexpr auto kRetry = 50ms;
constexpr std::chrono::milliseconds kPatience = 5s;  // longest wait without a word
constexpr std::size_t kNamed = 8;                     // processes that a message names

struct Hello {
  std::uint64_t magic = kMagic;
  std::int32_t process = 0, processes = 0;
};

std::string seconds_text(std::chrono::milliseconds t) {
  char text[32];
  std::snprintf(text, sizeof text, "%g s", std::chrono::duration<double>(t).count());
  return text;
}

/// The local address of a socket, without the port.
std::string address_of(int descriptor) {
  sockaddr_storage at{};
  socklen_t length = sizeof at;
  std::array<char, NI_MAXHOST> text{};
  if (getsockname(descriptor, reinterpret_cast<sockaddr*>(&at), &length) != 0 ||
      getnameinfo(reinterpret_cast<sockaddr*>(&at), length, text.data(), text.size(), nullptr, 0, NI_NUMERICHOST) != 0)
    throw CommError("a connection without an address");
  const std::string address(text.data());
  return address.starts_with("::ffff:") ? address.substr(7) : address;
}

bool loops_back(const std::string& address) { return address.starts_with("127.") || address == "::1"; }

using Addresses = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;

/// `why`, if not null: why the name has no address, or empty.
Addresses look_up(const char* host, int port, int flags, std::string* why = nullptr) {
  addrinfo hints{}, *found = nullptr;
  hints.ai_family = host == nullptr ? AF_INET6 : AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags;
  const int failed = getaddrinfo(host, std::to_string(port).c_str(), &hints, &found);
  if (why != nullptr) *why = failed == 0 ? "" : gai_strerror(failed);
  return {failed == 0 ? found : nullptr, freeaddrinfo};
}

/// Whether a socket can be read or written before the deadline.
bool ready(int descriptor, short events, std::chrono::steady_clock::time_point deadline) {
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
  pollfd asked{descriptor, events, 0};
  return poll(&asked, 1, static_cast<int>(std::max<std::int64_t>(0, left.count()))) > 0;
}

/// Listens on all addresses of this host. Returns an invalid socket if the port is taken.
Socket listen_at(int port) {
  for (const int family : {AF_INET6, AF_INET}) {
    Socket s(socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (s.get() < 0) continue;
    const int on = 1, off = 0;
    setsockopt(s.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    sockaddr_in6 six{};
    sockaddr_in four{};
    six.sin6_family = AF_INET6, four.sin_family = AF_INET;
    six.sin6_port = four.sin_port = htons(static_cast<std::uint16_t>(port));
    if (family == AF_INET6) setsockopt(s.get(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
    const auto* at = family == AF_INET6 ? reinterpret_cast<sockaddr*>(&six) : reinterpret_cast<sockaddr*>(&four);
    const auto size = static_cast<socklen_t>(family == AF_INET6 ? sizeof six : sizeof four);
    if (bind(s.get(), at, size) == 0 && listen(s.get(), SOMAXCONN) == 0) return s;
    if (errno == EADDRINUSE) break;
  }
  return Socket();
}

}  // namespace

Socket& Socket::operator=(Socket&& other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  return *this;
}

Socket::~Socket() {
  if (descriptor_ >= 0) close(descriptor_);
}

int Socket::release() { return std::exchange(descriptor_, -1); }

TcpGathering::TcpGathering(const LaunchSpec& spec, JoinOptions options)
    : spec_(spec),
      join_(std::move(options)),
      deadline_(std::chrono::steady_clock::now() + join_.timeout),
      patience_(std::chrono::steady_clock::now() + std::min(kPatience, join_.timeout / 4)) {
  if (spec.processes == 1) return;
  spec.process == 0 ? accept_all() : connect();
}

void TcpGathering::accept_all() {
  const Socket door = listen_at(spec_.port);
  if (door.get() < 0)
    throw CommError("process 0 cannot listen on port " + std::to_string(spec_.port) + ": " + std::strerror(errno) + "; give another --port");
  others_.resize(static_cast<std::size_t>(spec_.processes));
  const auto missing = [&] { return std::any_of(others_.begin() + 1, others_.end(), [](const Socket& s) { return s.get() < 0; }); };
  while (missing()) {
    if (!comes(door.get())) tell_wait("waits at " + place() + " for " + missing_text());
    wait(door.get(), POLLIN);
    if (Socket joined(accept4(door.get(), nullptr, nullptr, SOCK_CLOEXEC)); joined.get() >= 0) welcome(std::move(joined));
  }
}

void TcpGathering::welcome(Socket joined) {
  Hello hello;
  const Bytestring said = receive(joined);
  if (said.size() != sizeof hello) return;  // a connection from some other program
  std::memcpy(&hello, said.data(), sizeof hello);
  if (hello.magic != kMagic) return;
  const std::string who = std::to_string(hello.process);
  if (hello.processes != spec_.processes || hello.process < 1 || hello.process >= spec_.processes)
    throw LaunchError(Problem{"", "WORLD_SIZE", std::to_string(spec_.processes), "process " + who + " says " + std::to_string(hello.processes),
                              "start all processes with the same number"});
  Socket& place = others_[static_cast<std::size_t>(hello.process)];
  if (place.get() >= 0) throw LaunchError(Problem{"", "RANK", who, "two processes say that they are it", "give each process a number of its own"});
  place = std::move(joined);
}

void TcpGathering::connect() {
  while (!try_connect()) {
    const auto now = std::chrono::steady_clock::now();
    if (now + kRetry > deadline_) give_up();
    if (now > patience_ && spec_.process == 1) tell_wait("waits for process 0 at " + place());
    std::this_thread::sleep_for(kRetry);
  }
  send(others_.front(), Packer().add(Hello{kMagic, spec_.process, spec_.processes}).take());
}

bool TcpGathering::try_connect() {
  const Addresses found = look_up(spec_.address.c_str(), spec_.port, 0, &unknown_host_);
  for (const addrinfo* a = found.get(); a != nullptr; a = a->ai_next) {
    Socket s(socket(a->ai_family, a->ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, a->ai_protocol));
    if (s.get() < 0) continue;
    if (::connect(s.get(), a->ai_addr, a->ai_addrlen) != 0 && errno != EINPROGRESS) continue;
    wait(s.get(), POLLOUT);
    int error = 0;
    socklen_t size = sizeof error;
    if (getsockopt(s.get(), SOL_SOCKET, SO_ERROR, &error, &size) != 0 || error != 0) continue;
    others_.clear();
    others_.push_back(std::move(s));
    return true;
  }
  return false;
}

/// Whether a connection comes before the wait is to be told.
bool TcpGathering::comes(int descriptor) const { return ready(descriptor, POLLIN, patience_); }

void TcpGathering::wait(int descriptor, short events) const {
  if (!ready(descriptor, events, deadline_)) give_up();
}

void TcpGathering::tell_wait(const std::string& what) {
  if (!join_.tell) return;
  std::exchange(join_.tell, nullptr)("process " + std::to_string(spec_.process) + " " + what + ", for at most " + seconds_text(join_.timeout) +
                                        " (--timeout)");
}

std::string TcpGathering::missing_text() const {
  std::vector<std::string> missing;
  for (std::size_t p = 1; p < others_.size(); ++p)
    if (others_[p].get() < 0) missing.push_back(std::to_string(p));
  const std::string what = missing.size() == 1 ? "process " : "processes ";
  if (missing.size() > kNamed) {
    const std::string more = std::to_string(missing.size() - kNamed) + " more";
    missing.resize(kNamed);
    missing.push_back(more);
  }
  return what + list_text(missing) + " of " + std::to_string(spec_.processes);
}

void TcpGathering::give_up() const {
  if (spec_.process != 0)
    throw CommError(place() + " gives no answer within " + seconds_text(join_.timeout) +
                    (unknown_host_.empty() ? ": process 0 is not there, or its port cannot be reached" : ": its host's name has no address (" + unknown_host_ + ")") +
                    "; see MASTER_ADDR, --port and --timeout");
  const std::string missing = missing_text();
  throw CommError(missing + (missing.starts_with("process ") ? " has" : " have") + " not come to " + place() + " within " +
                  seconds_text(join_.timeout));
}

void TcpGathering::send(const Socket& to, const Bytestring& bytes) const {
  Bytestring all = Packer().add(std::uint64_t{bytes.size()}).take();
  all.insert(all.end(), bytes.begin(), bytes.end());
  for (std::size_t done = 0; done < all.size();) {
    wait(to.get(), POLLOUT);
    const ssize_t n = ::send(to.get(), all.data() + done, all.size() - done, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n < 0 && errno != EAGAIN) throw CommError("the connection to " + place() + " has ended before all processes had met");
    done += static_cast<std::size_t>(std::max<ssize_t>(0, n));
  }
}

Bytestring TcpGathering::receive(const Socket& from) const {
  const auto fill = [&](std::byte* at, std::size_t bytes) {
    for (std::size_t done = 0; done < bytes;) {
      wait(from.get(), POLLIN);
      const ssize_t n = recv(from.get(), at + done, bytes - done, MSG_DONTWAIT);
      if (n == 0 || (n < 0 && errno != EAGAIN)) throw CommError("a connection at " + place() + " has ended before all processes had met");
      done += static_cast<std::size_t>(std::max<ssize_t>(0, n));
    }
  };
  std::uint64_t size = 0;
  fill(reinterpret_cast<std::byte*>(&size), sizeof size);
  if (size > kMostBytes) return {};
  Bytestring bytes(size);
  fill(bytes.data(), bytes.size());
  return bytes;
}

std::vector<Bytestring> TcpGathering::exchange(const Bytestring& mine) {
  std::vector<Bytestring> all{mine};
  if (spec_.processes == 1) return all;
  if (spec_.process != 0) {
    send(others_.front(), mine);
    for (int p = 0; p < spec_.processes; ++p) all.push_back(receive(others_.front()));
    all.erase(all.begin());
    return all;
  }
  for (std::size_t p = 1; p < others_.size(); ++p) all.push_back(receive(others_[p]));
  for (std::size_t p = 1; p < others_.size(); ++p)
    for (const Bytestring& one : all) send(others_[p], one);
  return all;
}

// A process that reached process 0 by a loop-back address runs on the same host. Other hosts then reach it at process 0's own
// address.
std::string TcpGathering::own_address() {
  std::string mine = "127.0.0.1";
  for (const Socket& s : others_)
    if (s.get() >= 0 && (loops_back(mine))) mine = address_of(s.get());
  const auto all = exchange(Packer().add(mine).take());
  const std::string first = Unpacker(all.front()).get_text();
  return loops_back(mine) ? first : mine;
}

}  // namespace tandem::exec
