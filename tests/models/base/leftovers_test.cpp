#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>

#include "models/base/leftovers.hpp"
#include "tests/catch.hpp"
#include "tests/temporary_folder.hpp"

using namespace tandem;
namespace fs = std::filesystem;

namespace {

/// The number of a process that has ended and been waited for.
pid_t gone() {
  const pid_t child = fork();
  if (child == 0) _exit(0);
  waitpid(child, nullptr, 0);
  return child;
}

struct Folder : tests::TemporaryFolder {
  /// A file that was last written so long ago.
  std::string file(const std::string& name, std::chrono::seconds age) const {
    fs::last_write_time(TemporaryFolder::file(name, "half"), fs::file_time_type::clock::now() - age);
    return at(name);
  }
};

}  // namespace

TEST_CASE("Only what a process that is gone left beside a file is removed") {
  const Folder folder;
  const std::string dead = std::to_string(gone()), self = std::to_string(getpid());
  const std::chrono::hours old{1};
  const std::string left = folder.file("run.st." + dead + ".new", old);
  std::vector<std::string> kept = {folder.file("run.st", old),
                                   folder.file("run.st." + self + ".new", old),           // its process lives
                                   folder.file("other.st." + dead + ".new", old),         // of another file
                                   folder.file("run.st.x" + dead + ".new", old),          // no process' number
                                   folder.file("run.st." + dead + ".new.txt", old),
                                   folder.file("run.st.-" + dead + ".new", old),
                                   folder.file("run.st..new", old)};
  CHECK(remove_leftovers(folder.at("run.st")) == std::vector<std::string>{left});
  CHECK_FALSE(fs::exists(left));
  for (const std::string& k : kept) CHECK(fs::exists(k));
}

TEST_CASE("What was written a moment ago stays as its writer may be on another host") {
  const Folder folder;
  const std::string name = "run.st." + std::to_string(gone()) + ".new";
  const std::string fresh = folder.file(name, std::chrono::seconds(0));
  CHECK(remove_leftovers(folder.at("run.st")).empty());
  CHECK(fs::exists(fresh));
  CHECK(remove_leftovers(folder.at("nowhere/run.st")).empty());
}
