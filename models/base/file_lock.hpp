#pragma once
// A lock between processes, on a file that is made for it.

#include <string>

namespace tandem {

/// Held while the object exists. The system releases it when the process ends, even by kill -9.
class FileLock {
 public:
  /// Locks the file at `path`, which is made if it does not exist and removed at the end. Throws ConfigError, whose file is `place`,
  /// if another process holds the lock or the file cannot be written; also if the file was not made by this class.
  FileLock(std::string path, const std::string& place);
  ~FileLock();
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;

  /// False on a file system without locks. There is no file then.
  bool held() const { return file_ >= 0; }

 private:
  std::string path_;
  int file_ = -1;
};

}  // namespace tandem
