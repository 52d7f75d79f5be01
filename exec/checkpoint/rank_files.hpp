#pragma once
// The checkpoint files of one process' ranks. A thread writes them while training goes on.

#include <cstdint>
#include <exception>
#include <string>
#include <vector>

#include "exec/checkpoint/manifest.hpp"
#include "exec/checkpoint/part_queue.hpp"
#include "exec/state/stored_values.hpp"
#include "models/base/threads.hpp"

namespace tandem::exec {

/// A part that a rank has to write.
struct PlannedPart {
  std::uint32_t tensor;   ///< index in kept_tensors()
  BlockPlace place;
  DType type;             ///< in the file
  std::uint64_t at = 0;   ///< byte offset in its file
};

struct PlannedFile {
  Rank rank;
  std::string header;
  std::vector<PlannedPart> parts;
};

/// The files that the ranks with an arena write of `tensors`. A rank has no file if other ranks write all that it holds.
std::vector<PlannedFile> planned_files(std::span<const RankState> world, const std::vector<SavedTensor>& tensors);

/// A part that has been written.
struct WrittenPart {
  std::uint32_t tensor = 0, crc32 = 0;
  std::int32_t rank = 0;
  std::uint64_t at = 0;
  Block block;
};

class RankFiles {
 public:
  /// Writes into `folder`, on a thread. Throws DeviceError if the host cannot start a thread.
  RankFiles(std::string folder, std::vector<PlannedFile> files);
  ~RankFiles();

  /// Reads the arenas. Returns when everything is read, or when writing has failed. Call it once.
  void feed();
  /// True once the writing thread has ended its work.
  bool ended() const { return queue_.ended(); }
  /// Waits for the writing thread. Rethrows its failure.
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
