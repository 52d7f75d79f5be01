#include "models/base/output.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include "models/base/error.hpp"
#include "models/base/leftovers.hpp"
#include "models/base/new_file.hpp"
#include "tests/catch.hpp"
#include "tests/temporary_folder.hpp"

using namespace tandem;
namespace fs = std::filesystem;

namespace {
std::string watched;                ///< a place that is written
std::string seen_at_synchronising;  ///< what stood there when a file was first synchronised with the disk
int synchronised = 0;
}  // namespace

/// Takes the place of the C library's: looks at the watched place, then asks the system.
extern "C" int fsync(int file) {
  if (synchronised++ == 0) std::getline(std::ifstream(watched) >> std::ws, seen_at_synchronising);
  return static_cast<int>(syscall(SYS_fsync, file));
}

namespace {

struct Folder : tests::TemporaryFolder {
  std::string link(const std::string& name, const std::string& target) const {
    fs::create_symlink(target, path() / name);
    return at(name);
  }
  std::ptrdiff_t files() const { return std::distance(fs::directory_iterator(path()), fs::directory_iterator()); }
};

std::string content(const std::string& path) {
  std::ostringstream out;
  out << std::ifstream(path, std::ios::binary).rdbuf();
  return out.str();
}

/// An open file of this process.
class Opened {
 public:
  explicit Opened(const std::string& path, int how = O_WRONLY) : number_(::open(path.c_str(), how)) { REQUIRE(number_ >= 0); }
  ~Opened() { ::close(number_); }
  Opened(const Opened&) = delete;
  Opened& operator=(const Opened&) = delete;
  std::string name() const { return "/proc/self/fd/" + std::to_string(number_); }
  void write(const std::string& text) const {
    REQUIRE(::write(number_, text.data(), text.size()) == static_cast<ssize_t>(text.size()));
  }

 private:
  int number_;
};

bool has_proc() { return fs::exists("/proc/self/fd"); }

}  // namespace

TEST_CASE("a file is written whole or not at all") {
  const Folder folder;
  const std::string path = folder.file("out.json", "old");
  write_text(path, "new text");
  CHECK(content(path) == "new text");
  CHECK(folder.files() == 1);
  CHECK_THROWS_AS(write_text(folder.at("absent/out.json"), "x"), ConfigError);
  CHECK_THROWS_AS(write_text(folder.at(""), "x"), ConfigError);
}

TEST_CASE("What is written to a symbolic link goes to the file at its end and the link stays") {
  const Folder folder;
  fs::create_directory(folder.at("far"));
  const std::string file = folder.file("far/out.json", "old");
  folder.link("far/second", "out.json");  // relative to its own folder
  const std::string first = folder.link("first", "far/second"), absolute = folder.link("absolute", file);
  for (const std::string& name : {first, absolute, folder.link("up", "far/../absolute")}) {
    write_text(name, "through " + name);
    CHECK(content(file) == "through " + name);
    CHECK(fs::is_symlink(name));
  }
  CHECK(fs::is_symlink(folder.at("far/second")));
  CHECK(folder.files() == 4);
  CHECK(output_place(first).beside() == folder.at("far/out.json." + std::to_string(getpid()) + ".new"));
  CHECK_FALSE(output_place(first).in_place);
}

TEST_CASE("A link to no file yet makes that file, and a ring of links is refused") {
  const Folder folder;
  const std::string name = folder.link("link", "made.json");
  CHECK(takes_output(output_place(name)));
  CHECK(folder.files() == 1);
  write_text(name, "text");
  CHECK(content(folder.at("made.json")) == "text");
  CHECK(fs::is_symlink(name));
  folder.link("a", "b");
  CHECK_THROWS_AS(write_text(folder.link("b", "a"), "x"), ConfigError);
  CHECK_THROWS_AS(write_text(folder.link("here", "."), "x"), ConfigError);
}

TEST_CASE("A name of an open file of this process is written to where the file stands") {
  if (!has_proc()) return;
  const Folder folder;
  const std::string file = folder.file("out.txt", "");
  const Opened open(file);
  open.write("before ");
  write_text(open.name(), "within ");
  open.write("behind ");
  write_text(folder.link("link", open.name()), "linked");
  CHECK(content(file) == "before within behind linked");
  CHECK(takes_output(output_place(open.name())));
  CHECK(folder.files() == 2);
  CHECK(remove_leftovers(open.name()).empty());
  CHECK_FALSE(takes_output(output_place(Opened(file, O_RDONLY).name())));
  CHECK_THROWS_AS(write_text(Opened(file, O_RDONLY).name(), "x"), ConfigError);
}

TEST_CASE("A file that is open and has no name any more is written to") {
  if (!has_proc()) return;
  const Folder folder;
  const Opened open(folder.file("out.txt", ""), O_RDWR);
  fs::remove(folder.at("out.txt"));
  write_text(open.name(), "text");
  CHECK(content(open.name()) == "text");
  CHECK(folder.files() == 0);
}

TEST_CASE("A pipe is written to and stays one") {
  const Folder folder;
  const std::string pipe = folder.at("pipe");
  REQUIRE(mkfifo(pipe.c_str(), 0600) == 0);
  CHECK(takes_output(output_place(pipe)));
  std::string read;
  std::thread reader([&] { read = content(pipe); });
  write_text(folder.link("link", "pipe"), "text");
  reader.join();
  CHECK(read == "text");
  CHECK(fs::is_fifo(pipe));
  CHECK(folder.files() == 2);
}

TEST_CASE("The half of a file that a link names lies beside the file") {
  const Folder folder;
  fs::create_directory(folder.at("far"));
  const std::string name = folder.link("link", "far/out.st");
  const std::string half = folder.file("far/out.st.999999999.new", "half");  // above every process number of Linux
  fs::last_write_time(half, fs::file_time_type::clock::now() - std::chrono::hours(1));
  CHECK(remove_leftovers(name) == std::vector<std::string>{half});
}

TEST_CASE("a file is on the disk before it takes its name") {
  const Folder folder;
  watched = folder.at("out.txt");
  write_text(watched, "before");
  synchronised = 0;
  write_text(watched, "behind");
  CHECK(synchronised == 2);  // the file, then its folder
  CHECK(seen_at_synchronising == "before");
  CHECK(content(watched) == "behind");
}

TEST_CASE("a link that lies where the neighbour is written is not followed") {
  const Folder folder;
  const std::string out = folder.at("out.txt"), victim = folder.at("victim.txt");
  std::ofstream(victim) << "mine";
  fs::create_symlink(victim, out + "." + std::to_string(getpid()) + ".new");
  CHECK(takes_output(output_place(out)));
  fs::create_symlink(victim, out + "." + std::to_string(getpid()) + ".new");
  write_text(out, "theirs");
  CHECK(content(victim) == "mine");
  CHECK(content(out) == "theirs");
  CHECK(fs::is_regular_file(fs::symlink_status(out)));
}

TEST_CASE("A place that cannot be written is refused with what would help") {
  const auto said = [](int error) {
    try {
      refuse_writing("a/b", error);
    } catch (const ConfigError& e) {
      return std::string(e.what());
    }
  };
  CHECK(said(EACCES) == "a/b: cannot be written: Permission denied; give another place, or make its folder writable for this user");
  CHECK(said(ENOSPC) == "a/b: cannot be written: No space left on device; make room there, or give another place");
  CHECK(said(EIO) == "a/b: cannot be written: Input/output error; give another place");
}
