#pragma once
// How the host's CUDA runtime behaves: how far streams lag, how much memory a device has, and which fault is injected.

#include <cstddef>
#include <cstdint>

namespace tandem::hostcuda {

/// What cuBLASLt for tests does behind a product: all that Tandem asks, a bias only, or nothing.
enum class Epilogues { all, bias, none };

struct Settings {
  std::uint64_t seed = 1;   ///< of the streams' delays; TANDEM_HOSTCUDA_SEED
  bool lags = true;         ///< streams sleep now and then, so that they run behind the host and behind each other
  bool guards = false;      ///< device memory cannot be read or written while no operation runs
  /// Waits of streams for events are numbered from 0; the one with this number is left out. -1: none.
  std::int64_t dropped_wait = -1;
  std::int64_t slow_stream = -1;  ///< of the streams numbered from 0 as they are used first, one that lags much; -1: none
  Epilogues epilogues = Epilogues::all;  ///< TANDEM_HOSTCUDA_EPILOGUES: all, bias or none
  std::size_t memory = std::size_t{4} << 30;  ///< of the device, in bytes
};

/// Shared by all threads. Change it only while no stream has work.
Settings& settings();

/// What has happened since the program's start or since reset_counts().
struct Counts {
  std::int64_t waits = 0;      ///< of streams for events
  std::int64_t replays = 0;    ///< launches of graphs
  std::int64_t recorder = -1;  ///< the stream that recorded the event whose wait was left out
};
Counts counts();
/// Also numbers streams from 0 again. Call it while no stream has work.
void reset_counts();

}  // namespace tandem::hostcuda
