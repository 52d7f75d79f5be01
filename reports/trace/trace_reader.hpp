#pragma once
// Follows a trace's JSON value by value. Private to reports/trace.

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "reports/trace/trace_store.hpp"

namespace tandem {

/// A handler for the JSON library's `sax_parse`: it gets one value at a time and builds no tree. Throws ConfigError with the file
/// and the place about text that is no JSON and about events that cannot be.
class TraceReader {
 public:
  explicit TraceReader(DeviceTrace& trace) : trace_(trace) {}

  bool null() { return true; }
  bool boolean(bool) { return true; }
  bool number_integer(std::int64_t value) { return number(std::to_string(value)); }
  bool number_unsigned(std::uint64_t value) { return number(std::to_string(value)); }
  bool number_float(double, const std::string& text) { return number(text); }
  bool string(std::string& value);
  template <class Bytes>
  bool binary(Bytes&) { return true; }
  bool start_object(std::size_t);
  bool key(std::string& name);
  bool end_object();
  bool start_array(std::size_t);
  bool end_array();
  template <class Error>
  bool parse_error(std::size_t position, const std::string&, const Error& error) {
    refuse_text(position, error.what());
    return false;
  }

  /// Whether the file has a list of events.
  bool has_events() const { return event_depth_ > 0; }
  /// Call once, at the end of the text.
  void finish();

 private:
  [[noreturn]] void refuse_text(std::size_t position, const std::string& error) const;
  [[noreturn]] void refuse_own(const std::string& performer) const;
  std::string place() const;
  [[noreturn]] void refuse_event(const std::string& key, const std::string& value, const std::string& reason) const;
  bool number(const std::string& text);
  void event_number(const std::string& key, const std::string& text);
  void argument_number(const std::string& key, const std::string& text);
  void event_text(const std::string& key, std::string& text);
  void argument_text(const std::string& key, const std::string& text);
  void head_number(const std::string& text);
  void head_text(const std::string& text);
  std::int64_t whole(const std::string& key, const std::string& text) const;
  bool at_event() const { return inside_ && keys_.size() == event_depth_; }
  bool at_arguments() const { return inside_ && keys_.size() == event_depth_ + 1 && keys_[event_depth_ - 1] == "args"; }
  /// Whether the open value lies at root.first.*.second, with lists in between.
  bool at(std::size_t depth, const char* first, const char* second) const {
    return !inside_ && keys_.size() == depth && keys_[0] == first && (depth < 3 || keys_[1] == second);
  }

  DeviceTrace& trace_;
  TraceStore store_;
  RawEvent event_;
  std::vector<std::string> keys_;  ///< the current key of each open level; empty in a list
  std::size_t event_depth_ = 0;    ///< number of open levels within an event; 0: no list of events yet
  bool inside_ = false;            ///< within an event
  std::int64_t events_ = 0;
  std::int64_t device_ = 0;
  std::map<std::int64_t, std::string> devices_;
  std::string group_;
  ProcessGroup group_facts_;
};

}  // namespace tandem
