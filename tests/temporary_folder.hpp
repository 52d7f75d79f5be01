#pragma once
// A folder of a test's own, gone with it.

#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <string>

namespace tandem::tests {

class TemporaryFolder {
 public:
  TemporaryFolder() : path_(std::filesystem::temp_directory_path() / unique()) { std::filesystem::create_directory(path_); }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }
  std::string at(const std::string& name) const { return (path_ / name).string(); }
  /// Writes a file and says where it is.
  std::string file(const std::string& name, const std::string& text) const {
    std::ofstream(at(name), std::ios::binary) << text;
    return at(name);
  }

 private:
  /// Tests run at once as processes of their own.
  static std::string unique() {
    static std::atomic<int> made = 0;
    return "tandem_test_" + std::to_string(::getpid()) + "_" + std::to_string(made++);
  }

  std::filesystem::path path_;
};

}  // namespace tandem::tests
