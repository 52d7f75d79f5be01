#pragma once
// Reads a JSON file value by value, in order. It holds one block of the file and builds no tree.

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "models/base/input.hpp"

namespace tandem {

/// Every method throws ConfigError with the file, the field ("lanes[3].spans[17][7]"), the value and the expected kind.
class JsonScanner {
 public:
  /// The expected file.
  struct Wanted {
    std::string kind;         ///< its name in messages: "a timeline"
    std::string marker;       ///< text that the first 4 KiB must contain
    std::uint64_t max_bytes;  ///< largest size of the file
    std::string remedy;       ///< advice in messages
  };

  /// Checks the beginning and the size of the file; messages call it `path`.
  JsonScanner(InputFile& file, const std::string& path, const Wanted& wanted);

  void begin_object();
  /// Reads the next key of the object into `key`; false at its end. Throws on a repeated key.
  bool next_key(std::string& key);
  void begin_list();
  /// Whether the list has another entry.
  bool next_entry();

  std::int64_t whole();         ///< a whole number of 64 bits
  std::int32_t small_whole();   ///< one of 32 bits
  std::string string();
  /// The text of the next value; throws if it has more than `max_bytes`.
  std::string raw(std::size_t max_bytes);
  void skip();
  /// Throws if anything but blanks follows the value.
  void end();

  /// Throws ConfigError about the value that is read, or about `field` of it.
  [[noreturn]] void refuse(const std::string& value, const std::string& reason, const std::string& field = {}) const;

 private:
  struct Level {
    bool list = false;
    std::int64_t entries = 0;
    std::string key;
    std::vector<std::string> keys;  ///< keys of an object so far
  };
  static constexpr std::size_t kDepth = 64;

  int peek() { return at_ < block_.size() || fill() ? static_cast<unsigned char>(block_[at_]) : -1; }
  bool fill();
  int solid();
  bool plain_whole(std::int64_t& value);
  void expect(char c, const char* what);
  void open(bool list);
  [[noreturn]] void refuse_kind(const char* wanted);
  void copy_string(std::string* out, std::size_t max_bytes);
  void copy_scalar(std::string* out);
  void copy(std::string* out, std::size_t max_bytes);
  std::string place(const std::string& field) const;

  InputFile& file_;
  std::string path_;
  Wanted wanted_;
  std::string_view block_;
  std::size_t at_ = 0;
  std::uint64_t read_ = 0;
  std::array<Level, kDepth> levels_;
  std::size_t depth_ = 0;
};

}  // namespace tandem
