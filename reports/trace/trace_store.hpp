#pragma once
// Keeps what a comparison needs of a trace's events, one by one as they are read. Private to reports/trace.

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "reports/trace/device_trace.hpp"

namespace tandem {

/// The keys of an event that matter. Times are in nanoseconds by the file's clock.
struct RawEvent {
  std::string phase, category, name;
  std::int64_t start_ns = 0, time_ns = 0, thread = 0, process = 0;
  std::int64_t correlation = -1, device = -1;
  bool has_start = false, has_time = false, has_facts = false;
  CollectiveFacts facts;
};

/// Reads a number of microseconds as a file writes it ("4458676416788.123") into nanoseconds; further digits are cut. False if
/// the text is no plain decimal number, or too large for 64 bits.
bool read_microseconds(std::string_view text, std::int64_t& ns);

/// Collects events of all devices and hosts of a file.
class TraceStore {
 public:
  /// Adds a complete event ("X"); forgets others and categories of no use. Returns why an event cannot be, or an empty text.
  std::string add(const RawEvent& event);

  /// Moves everything into `trace`, with times from the first kept event on, and the device with most work.
  void finish(DeviceTrace& trace);

 private:
  std::uint32_t name_index(const std::string& name);
  Duration since_base(std::int64_t ns);
  HostRange range(const RawEvent& event);
  void keep(const RawEvent& event, DeviceWork work);
  using Load = std::pair<std::int32_t, Duration>;  ///< a device and the time of its work
  std::vector<Load> loads() const;
  void shift();

  bool based_ = false;
  std::int64_t base_ns_ = 0;  ///< start of the first event that was added
  std::vector<std::string> names_;
  std::unordered_map<std::string, std::uint32_t> indices_;
  std::vector<DeviceEvent> events_;
  std::vector<HostRange> ranges_, device_ranges_;
  std::vector<HostLaunch> launches_;
  std::vector<CollectiveFacts> collectives_;
};

}  // namespace tandem
