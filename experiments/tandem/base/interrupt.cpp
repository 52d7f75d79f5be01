#include "experiments/tandem/base/interrupt.hpp"

#include <unistd.h>

#include <atomic>
#include <csignal>
#include <filesystem>
#include <memory>
#include <mutex>
#include <new>

#include "experiments/tandem/base/exit_code.hpp"
#include "experiments/tandem/base/terminal.hpp"
#include "models/base/files.hpp"
#include "models/base/output.hpp"

namespace tandem::program {

namespace {

volatile std::sig_atomic_t interrupts = 0, told = 1;

constexpr int kInterrupts[] = {SIGINT, SIGTERM, SIGHUP};  // Ctrl-C, time limit of a batch system, closed terminal
constexpr char kNotice[] = "interrupted: finishing what is running; interrupt again to end at once\n";
constexpr char kEnd[] = "interrupted\n";

/// Signals ignored under `nohup` stay ignored.
void handle_interrupts(void (*handler)(int)) {
  for (int s : kInterrupts)
    if (std::signal(s, handler) == SIG_IGN && s == SIGHUP) std::signal(s, SIG_IGN);
}

/// Prints without memory or locks.
template <std::size_t N>
void tell_at_once(const char (&text)[N]) {
  if (write(STDERR_FILENO, text, N - 1) < 0) return;  // stderr is closed
}

void on_interrupt_end(int) {
  if (told != 0) tell_at_once(kEnd);
  _exit(static_cast<int>(ExitCode::interrupted));
}

/// The handler of the first signal. The next signal of any kind ends the program.
void on_interrupt(int) {
  interrupts = interrupts + 1;
  handle_interrupts(on_interrupt_end);
  if (told != 0) tell_at_once(kNotice);
}

}  // namespace

InterruptWatch::InterruptWatch(bool tells) {
  interrupts = 0;
  told = tells ? 1 : 0;
  handle_interrupts(on_interrupt);
}

InterruptWatch::~InterruptWatch() { end_at_interrupts(); }

bool InterruptWatch::pressed() { return interrupts != 0; }

std::string InterruptWatch::notice() { return std::string(kNotice, sizeof kNotice - 2); }

void end_at_interrupts() { handle_interrupts(on_interrupt_end); }

void ignore_interrupts() { handle_interrupts(SIG_IGN); }

void tell_no_memory() {
  constexpr char text[] = "tandem: error: the host has no memory left; a smaller plan, fewer --jobs or a higher limit of memory would do\n";
  tell_at_once(text);
}

void end_without_memory() {
  std::set_new_handler([] {
    static std::atomic_flag told;
    while (told.test_and_set()) pause();  // threads run out together; the first one tells it and ends the program
    tell_no_memory();
    _exit(static_cast<int>(ExitCode::world));
  });
}

Jobs interruptible(int jobs) {
  const auto tell = [jobs, told = std::make_shared<std::once_flag>()](int there) {
    std::call_once(*told, [&] {
      log("the host gives " + std::to_string(there) + " of " + std::to_string(jobs) + " threads: the work goes on with these");
    });
  };
  return {jobs, [] { return InterruptWatch::pressed(); }, tell};
}

std::string place_when_interrupted(const std::string& path) {
  if (path.empty() || output_place(path).in_place || !file_exists(path)) return path;
  const std::filesystem::path whole(path);
  return std::filesystem::path(whole).replace_extension(".interrupted" + whole.extension().string()).string();
}

}  // namespace tandem::program
