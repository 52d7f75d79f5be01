#pragma once
// The files of one process' ranks, written by a thread while the training goes on.

#include <cstdint>
#include <exception>
#include <string>
#include <vector>

#include "exec/checkpoint/manifest.hpp"
#include "exec/checkpoint/part_queue.hpp"
#include "exec/state/stored_values.hpp"
#include "models/base/threads.hpp"

namespace tandem::exec {

/// A part that a rank is to write.
struct PlannedPart {
  std::uint32_t tensor;   ///< place in kept_tensors()
  BlockPlace place;
  std::uint64_t at = 0;   ///< in its file
};

struct PlannedFile {
  Rank rank;
  std::string header;
  std::vector<PlannedPart> parts;
};

/// What the ranks with an arena write of `tensors`: nothing where others write all that they have.
std::vector<PlannedFile> planned_files(std::span<const RankState> world, const std::vector<SavedTensor>& tensors);

/// A part that was written.
struct WrittenPart {
  std::uint32_t tensor = 0, crc32 = 0;
  std::int32_t rank = 0;
  std::uint64_t at = 0;
  Block block;
};

class RankFiles {
 public:
  /// Writes into `folder`. Throws DeviceError where the host gives no thread.
  RankFiles(std::string folder, std::vector<PlannedFile> files);
  ~RankFiles();

  /// Reads the arenas; returns when all is read or the writing has failed. Once.
  void feed();
  /// Whether the thread has ended its work.
  bool ended() const { return queue_.ended(); }
  /// Waits for the thread. Throws what the writing failed with.
  std::vector<WrittenPart> finish();

 private:
  void write();
  void write(const PlannedFile& file);

  std::string folder_;
  std::vector<PlannedFile> files_;
  std::vector<WrittenPart> written_;
  PartQueue queue_;
  std::exception_ptr error_;
  SmallThread thread_;  ///< last: it uses all of the above
};

}  // namespace tandem::exec
