#include "models/base/input.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cstddef>

#include "models/base/error.hpp"
#include "tests/catch.hpp"
#include "tests/temporary_folder.hpp"

using namespace tandem;
using tandem::tests::TemporaryFolder;

namespace {

template <class Work>
std::string refusal(Work work) {
  try {
    work();
  } catch (const ConfigError& e) {
    return e.what();
  }
  return "";
}

constexpr std::size_t kMuch = std::size_t{1} << 40;

}  // namespace

TEST_CASE("A file that was looked at is read from its beginning") {
  const TemporaryFolder folder;
  const std::string text(200'000, 'x'), path = folder.file("a", "begin" + text);
  InputFile file(path);
  CHECK(file.size() == 5 + text.size());
  CHECK(file.head(5) == "begin");
  CHECK(file.head(7) == "beginxx");
  CHECK(file.head(3) == "beg");
  CHECK(file.whole(kMuch) == "begin" + text);
  InputFile blocks(path);
  CHECK(blocks.head(100'000).size() == 100'000);
  std::string all;
  for (std::string_view block; !(block = blocks.block()).empty();) all += block;
  CHECK(all == "begin" + text);
}

TEST_CASE("A pipe is read once and whole though it was looked at") {
  int ends[2];
  REQUIRE(::pipe(ends) == 0);
  REQUIRE(::write(ends[1], "{\"a\": 1}", 8) == 8);
  ::close(ends[1]);
  InputFile file("/dev/fd/" + std::to_string(ends[0]));
  CHECK_FALSE(file.size());
  CHECK(file.head(1) == "{");
  CHECK(file.whole(kMuch) == "{\"a\": 1}");
  ::close(ends[0]);
}

TEST_CASE("A file of the largest size is read and one of a byte more is refused") {
  const TemporaryFolder folder;
  const std::string path = folder.file("a", std::string(3 << 20, 'x'));
  CHECK(InputFile(path).whole(3 << 20).size() == 3 << 20);
  CHECK(refusal([&] { InputFile(path).whole((3 << 20) - 1); }).find("is larger than 2 MiB") != std::string::npos);
  CHECK(refusal([&] { InputFile(path).whole(256); }).find("is larger than 256 bytes; is it the right file?") != std::string::npos);
  CHECK(refusal([&] { InputFile("/dev/zero").whole(3 << 20); }).find("is larger than 3 MiB") != std::string::npos);
}

TEST_CASE("A file that ends too early is refused with a remedy") {
  const TemporaryFolder folder;
  const std::string path = folder.file("a", "half");
  std::array<std::byte, 8> bytes{};
  CHECK(refusal([&] { InputFile(path).read_at(0, bytes); }) == path + ": is cut short; copy it again, or give another one");
}

TEST_CASE("A file larger than the host's memory is refused before it is read") {
  const TemporaryFolder folder;
  const std::string path = folder.file("hole", "");
  REQUIRE(::truncate(path.c_str(), static_cast<off_t>(host_memory())) == 0);
  CHECK(refusal([&] { InputFile(path).whole(kMuch); }).find("of this host's memory; give a smaller file") != std::string::npos);
}

TEST_CASE("A folder and a file that is not there are refused by name when they are opened") {
  const TemporaryFolder folder;
  CHECK(refusal([&] { InputFile file(folder.path().string()); }) == folder.path().string() + ": is a directory, not a file");
  CHECK(refusal([&] { InputFile file(folder.at("none")); }) == folder.at("none") + ": cannot be read: No such file or directory");
}
