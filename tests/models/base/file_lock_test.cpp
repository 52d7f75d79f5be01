// A lock between processes: who has it, and what is left of it.

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>

#include "models/base/error.hpp"
#include "models/base/file_lock.hpp"
#include "tests/catch.hpp"
#include "tests/temporary_folder.hpp"

using namespace tandem;
namespace fs = std::filesystem;

namespace {

std::string refusal(const std::string& path) {
  try {
    const FileLock lock(path, "the place");
    return "";
  } catch (const ConfigError& e) {
    return e.what();
  }
}

}  // namespace

TEST_CASE("a lock is refused while it is held, names its holder, and leaves no file") {
  const tests::TemporaryFolder place;
  const std::string path = (place.path() / "lock").string();
  {
    const FileLock lock(path, "the place");
    CHECK(lock.held());
    CHECK(refusal(path).starts_with("the place: is in use: process " + std::to_string(::getpid()) + " on "));
  }
  CHECK_FALSE(fs::exists(path));
  CHECK(refusal(path).empty());
}

TEST_CASE("a killed holder's lock is free though its file is left") {
  const tests::TemporaryFolder place;
  const std::string path = (place.path() / "lock").string();
  int ready[2];
  REQUIRE(::pipe(ready) == 0);
  const pid_t holder = ::fork();
  if (holder == 0) {
    const FileLock lock(path, "the place");
    if (::write(ready[1], "x", 1) == 1) ::pause();
    ::_exit(1);
  }
  char byte = 0;
  REQUIRE(::read(ready[0], &byte, 1) == 1);
  CHECK(refusal(path).starts_with("the place: is in use: process " + std::to_string(holder) + " on "));
  ::kill(holder, SIGKILL);
  ::waitpid(holder, nullptr, 0);
  ::close(ready[0]);
  ::close(ready[1]);
  CHECK(fs::exists(path));
  CHECK(refusal(path).empty());
  CHECK_FALSE(fs::exists(path));
}

TEST_CASE("a file of that name that is no lock stays") {
  const tests::TemporaryFolder place;
  const std::string path = (place.path() / "lock").string();
  std::ofstream(path) << "mine";
  CHECK(refusal(path).find("is in the way of a lock and is none") != std::string::npos);
  CHECK(fs::file_size(path) == 4);
  CHECK(refusal((place.path() / "absent" / "lock").string()).find("cannot be written") != std::string::npos);
}
