#pragma once
// Files that keep what searches found out: an interrupted search goes on from its own, and shards are put together by theirs.

#include <chrono>
#include <string>
#include <vector>

#include "experiments/tandem/search/search.hpp"

namespace tandem::search {

/// The part of the groups that a process searches: `index` of `of`, from 0.
struct Shard {
  std::int64_t index = 0, of = 1;
};

/// Reads "2/8". Throws ConfigError.
Shard read_shard(const std::string& text);
std::string text_of(const Shard& shard);

/// Keeps the knowledge of searches in a file, which is replaced as a whole.
class Keeper {
 public:
  /// Searches outlive it. An empty path keeps nothing.
  Keeper(std::string path, Shard shard, std::vector<Search*> searches);

  /// Takes what the file has, where it is there; false where it is not. Throws ConfigError where it is none of this program, of these
  /// questions and of this shard.
  bool resume();
  /// Writes where some time has passed since the last time.
  void learned();
  void write(bool finished);

 private:
  std::string path_;
  Shard shard_;
  std::vector<Search*> searches_;
  std::chrono::steady_clock::time_point written_ = std::chrono::steady_clock::now();
};

/// Gives the searches what all shards' files have. Throws ConfigError where one is missing, unfinished, of another question or there twice.
void merge(const std::vector<std::string>& files, const std::vector<Search*>& searches);

}  // namespace tandem::search
