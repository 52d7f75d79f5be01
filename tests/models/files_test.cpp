#include "models/base/files.hpp"

#include <cstdlib>
#include <filesystem>

#include "models/base/error.hpp"
#include "tests/catch.hpp"
#include "tests/temporary_folder.hpp"

namespace fs = std::filesystem;
using namespace tandem;

TEST_CASE("what stands at a path is told without an exception, whatever it is") {
  const tests::TemporaryFolder folder;
  folder.file("file", "text");
  fs::create_symlink("file", folder.path() / "link");
  fs::create_symlink("nowhere", folder.path() / "broken");
  fs::create_symlink("ring", folder.path() / "ring");
  CHECK(file_state(folder.at("file")).kind == FileKind::regular);
  CHECK(file_state(folder.at("link")).kind == FileKind::regular);
  CHECK(file_state(folder.at("")).kind == FileKind::folder);
  CHECK(file_state("/dev/null").kind == FileKind::other);
  CHECK(file_state(folder.at("absent")).kind == FileKind::absent);
  CHECK(file_state(folder.at("file/below")).kind == FileKind::absent);
  CHECK(file_state("").kind == FileKind::absent);
  CHECK(file_state(folder.at("broken")).kind == FileKind::broken_link);
  CHECK(file_state(folder.at("ring")).reason == std::errc::too_many_symbolic_link_levels);
  CHECK(file_state(std::string(5000, 'a')).reason == std::errc::filename_too_long);
  CHECK(file_state(folder.at("ring")).kind == FileKind::unknown);
  CHECK(file_exists("/dev/null"));
  CHECK_FALSE(file_exists(folder.at("broken")));
}

TEST_CASE("why a file cannot be read is said in words") {
  const tests::TemporaryFolder folder;
  fs::create_symlink("nowhere", folder.path() / "broken");
  CHECK(why_unreadable(folder.file("file", "text")) == "");
  CHECK(why_unreadable("/dev/null") == "");
  CHECK(why_unreadable(folder.at("absent")) == "there is no such file");
  CHECK(why_unreadable(folder.at("")) == "is a directory, not a file");
  CHECK(why_unreadable(folder.at("broken")) == "is a link to a file that is not there");
  CHECK(why_unreadable(std::string(5000, 'a')) == "cannot be read: File name too long");
}

TEST_CASE("what the file system refuses is a reason, never an exception") {
  const tests::TemporaryFolder folder;
  const std::string file = folder.file("file", "text"), far(5000, 'a');
  CHECK(make_folders(folder.at("a/b")) == std::error_code());
  CHECK(fs::is_directory(folder.at("a/b")));
  CHECK(make_folders(file + "/b") == std::errc::not_a_directory);
  CHECK(remove_file(folder.at("absent")) == std::error_code());
  CHECK(remove_file(folder.at("a")) == std::errc::directory_not_empty);
  CHECK(written_at(file).has_value());
  CHECK_FALSE(written_at(folder.at("absent")).has_value());
  CHECK(canonical_path(far) == "");
  CHECK(canonical_path(folder.at("a/../a/b")) == fs::canonical(folder.path()).string() + "/a/b");
  CHECK(link_target(file) == "");
  CHECK(folder_entries(folder.at("")).names == std::vector<std::string>{"a", "file"});
  CHECK(folder_entries(file).reason == std::errc::not_a_directory);
}

TEST_CASE("a TMPDIR that is no folder is refused by its name") {
  const char* given = std::getenv("TMPDIR");
  const std::string before = given == nullptr ? "" : given;
  setenv("TMPDIR", "/no such folder", 1);
  CHECK_THROWS_AS(temporary_folder(), ConfigError);
  before.empty() ? unsetenv("TMPDIR") : setenv("TMPDIR", before.c_str(), 1);
  CHECK(fs::is_directory(temporary_folder()));
}
