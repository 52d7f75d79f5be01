#include "reports/trace/trace_store.hpp"

#include <algorithm>
#include <charconv>
#include <limits>
#include <map>
#include <utility>

#include "reports/trace/letter_case.hpp"

namespace tandem {

namespace {

constexpr std::int64_t kLongest = std::int64_t{1'000'000} * 3600;  ///< nanoseconds x 1000 of times between events fit into 64 bits

/// The categories of Kineto; before PyTorch 1.11 it wrote "Kernel", "Memcpy", "Operator" and "Runtime".
bool is_host(std::string_view category) { return category == "cpu_op" || category == "user_annotation" || category == "operator"; }
bool is_launch(std::string_view category) { return category.ends_with("runtime") || category.ends_with("driver"); }

bool device_work(std::string_view category, DeviceWork& work) {
  if (category == "kernel" || category == "concurrent_kernel") return work = DeviceWork::kernel, true;
  if (category == "gpu_memcpy" || category == "memcpy") return work = DeviceWork::copy, true;
  if (category == "gpu_memset" || category == "memset") return work = DeviceWork::set, true;
  return false;
}

template <class Number>
bool read_digits(std::string_view text, Number& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size();
}

}  // namespace

bool read_microseconds(std::string_view text, std::int64_t& ns) {
  const std::size_t dot = text.find('.');
  std::int64_t whole = 0, part = 0;
  if (!read_digits(text.substr(0, dot), whole)) return false;
  std::string digits = dot == text.npos ? "" : std::string(text.substr(dot + 1, 3));
  digits.resize(3, '0');
  if (!read_digits(digits, part) || part < 0) return false;
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max() / 1000 - 1;
  if (whole > kMost || whole < -kMost) return false;
  ns = whole * 1000 + (text.starts_with('-') ? -part : part);
  return true;
}

std::uint32_t TraceStore::name_index(const std::string& name) {
  const auto [at, added] = indices_.try_emplace(name, static_cast<std::uint32_t>(names_.size()));
  if (added) names_.push_back(name);
  return at->second;
}

Duration TraceStore::since_base(std::int64_t ns) { return Duration::nanoseconds(ns - base_ns_); }

HostRange TraceStore::range(const RawEvent& e) {
  return {e.thread, since_base(e.start_ns), since_base(e.start_ns + e.time_ns), name_index(e.name)};
}

void TraceStore::keep(const RawEvent& e, DeviceWork work) {
  DeviceEvent event{since_base(e.start_ns), Duration::nanoseconds(e.time_ns), name_index(e.name), -1, e.correlation, 0, work};
  event.device = static_cast<std::int32_t>(e.device >= 0 ? e.device : e.process);
  if (e.has_facts) {
    event.collective = static_cast<std::int32_t>(collectives_.size());
    collectives_.push_back(e.facts);
  }
  events_.push_back(event);
}

std::string TraceStore::add(const RawEvent& e) {
  if (e.phase != "X") return "";
  const std::string category = lower(e.category);
  DeviceWork work = DeviceWork::kernel;
  const bool device = device_work(category, work), host = is_host(category), annotation = category == "gpu_user_annotation";
  const bool launch = is_launch(category) && e.correlation >= 0;
  if (!device && !host && !annotation && !launch) return "";
  if (!e.has_start) return "has no ts";
  if (!e.has_time && !launch) return "has no dur";
  if (e.time_ns < 0) return "has a negative dur";
  if (!std::exchange(based_, true)) base_ns_ = e.start_ns;
  if (std::abs(e.start_ns / 1000 - base_ns_ / 1000) > kLongest || e.time_ns / 1000 > kLongest) return "is more than an hour from the first one";
  if (device) keep(e, work);
  if (host) ranges_.push_back(range(e));
  if (annotation) device_ranges_.push_back(range(e));
  if (launch) launches_.push_back({e.thread, since_base(e.start_ns), e.correlation, lower(e.name).find("graphlaunch") != std::string::npos});
  return "";
}

/// Devices with work, most time first.
std::vector<TraceStore::Load> TraceStore::loads() const {
  std::map<std::int32_t, Duration> work;
  for (const DeviceEvent& e : events_) work[e.device] += e.time;
  std::vector<Load> out(work.begin(), work.end());
  std::stable_sort(out.begin(), out.end(), [](const Load& a, const Load& b) { return a.second > b.second; });
  return out;
}

/// Moves the zero of time to the first kept event.
void TraceStore::shift() {
  Duration first = Duration::max();
  for (const DeviceEvent& e : events_) first = std::min(first, e.start);
  for (const HostRange& r : ranges_) first = std::min(first, r.start);
  for (const HostRange& r : device_ranges_) first = std::min(first, r.start);
  for (const HostLaunch& l : launches_) first = std::min(first, l.at);
  for (DeviceEvent& e : events_) e.start -= first;
  for (std::vector<HostRange>* ranges : {&ranges_, &device_ranges_})
    for (HostRange& r : *ranges) r.start -= first, r.end -= first;
  for (HostLaunch& l : launches_) l.at -= first;
}

void TraceStore::finish(DeviceTrace& trace) {
  const std::vector<Load> devices = loads();
  const std::int32_t device = devices.empty() ? 0 : devices[0].first;
  if (devices.size() > 1 && devices[0].second.ps() > 0)
    trace.second = {device, devices[1].first, devices[1].second.seconds() / devices[0].second.seconds()};
  const std::size_t all = events_.size();
  std::erase_if(events_, [&](const DeviceEvent& e) { return e.device != device; });
  trace.other_devices = static_cast<std::int64_t>(all - events_.size());
  shift();
  std::stable_sort(events_.begin(), events_.end(), [](const DeviceEvent& a, const DeviceEvent& b) { return a.start < b.start; });
  trace.names = std::move(names_);
  trace.events = std::move(events_);
  trace.ranges = std::move(ranges_);
  trace.device_ranges = std::move(device_ranges_);
  trace.launches = std::move(launches_);
  trace.collectives = std::move(collectives_);
}

}  // namespace tandem
