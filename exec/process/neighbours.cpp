#include "exec/process/neighbours.hpp"

#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "models/base/files.hpp"
#include "models/base/input.hpp"

namespace tandem::exec {
namespace {

std::string link_target(const char* path) {
  std::array<char, 256> text{};
  const ssize_t length = readlink(path, text.data(), text.size());
  return length < 0 ? "" : std::string(text.data(), static_cast<std::size_t>(length));
}

std::string host_name() {
  std::array<char, 256> host{};
  gethostname(host.data(), host.size() - 1);
  return host.data();
}

}  // namespace

std::string kernel_name(const std::string& root) {
  const std::string boot = root + "/proc/sys/kernel/random/boot_id";
  return is_regular_file(boot) ? InputFile(boot).whole(64) : host_name();
}

Neighbour introduce_self() { return {host_name(), kernel_name() + link_target("/proc/self/ns/pid"), getpid()}; }

bool lives(const Neighbour& self, const Neighbour& other) {
  if (self.machine != other.machine) return true;
  // An ended process still accepts signals until its parent has waited for it. Its pid descriptor shows the end at once.
  const auto descriptor = static_cast<int>(syscall(SYS_pidfd_open, other.pid, 0));
  if (descriptor < 0) return errno != ESRCH;
  pollfd asked{descriptor, POLLIN, 0};
  const bool ended = poll(&asked, 1, 0) > 0;
  close(descriptor);
  return !ended;
}

}  // namespace tandem::exec
