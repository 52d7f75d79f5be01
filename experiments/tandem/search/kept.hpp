#pragma once
// Files that store the knowledge of searches. An interrupted search resumes from its file; shards are merged from theirs.

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "experiments/tandem/search/search.hpp"

namespace tandem::search {

/// The part of the groups that a process searches: number `index` of `of`, from 0.
struct Shard {
  std::int64_t index = 0, of = 1;
};

/// Parses "2/8". Throws ConfigError.
Shard read_shard(const std::string& text);
std::string text_of(const Shard& shard);

/// What a search answers. Bounds and estimates of one kind do not serve the other, because each looks closer at other groups. So only
/// simulations and refinements pass from one to the other.
enum class Kind : std::uint8_t { fastest, front };

/// What was read from a file.
enum class Resumed : std::uint8_t { nothing, all, simulations };

/// Stores the knowledge of searches in a file, which is replaced as a whole.
class Keeper {
 public:
  /// The searches must outlive it. With an empty path nothing is stored.
  Keeper(std::string path, Shard shard, Kind kind, std::vector<Search*> searches);

  /// Loads the file, if there is one. Throws ConfigError if another version of the program, other questions or another shard wrote it.
  Resumed resume();
  /// Writes the file at the first simulated candidate, and if some time has passed since the last write. Writing takes at most a
  /// twentieth of the time.
  void learned();
  void write(bool finished);

 private:
  std::string path_;
  Shard shard_;
  Kind kind_;
  std::vector<Search*> searches_;
  bool begun_ = false;  ///< the file holds a simulated candidate
  std::chrono::steady_clock::time_point next_;  ///< the earliest time of the next write
};

/// Merges all shards' files into the searches. Throws ConfigError if one is missing, unfinished, repeated, or of another question or
/// kind.
void merge(const std::vector<std::string>& files, Kind kind, const std::vector<Search*>& searches);

}  // namespace tandem::search
