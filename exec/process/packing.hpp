#pragma once
// Serialisation of values between processes of one program.

#include <cstddef>
#include <cstring>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "models/base/error.hpp"

namespace tandem::exec {

using Bytestring = std::vector<std::byte>;

/// Appends values: trivially copyable ones byte by byte, sequences as length and elements.
class Packer {
 public:
  template <class T>
  Packer& add(const T& value) {
    static_assert(std::is_trivially_copyable_v<T>);
    return append(&value, sizeof value);
  }
  template <class T>
  Packer& add(const std::vector<T>& values) {
    static_assert(std::is_trivially_copyable_v<T>);
    return add(values.size()).append(values.data(), values.size() * sizeof(T));
  }
  Packer& add(const std::string& text) { return add(text.size()).append(text.data(), text.size()); }

  Bytestring take() { return std::move(bytes_); }

 private:
  Packer& append(const void* from, std::size_t bytes) {
    const auto* first = static_cast<const std::byte*>(from);
    bytes_.insert(bytes_.end(), first, first + bytes);
    return *this;
  }

  Bytestring bytes_;
};

/// Reads values in the order in which they were added. Throws ContractError if bytes are missing.
class Unpacker {
 public:
  explicit Unpacker(std::span<const std::byte> bytes) : bytes_(bytes) {}

  template <class T>
  T get() {
    static_assert(std::is_trivially_copyable_v<T>);
    T value;
    take(&value, sizeof value);
    return value;
  }
  template <class T>
  std::vector<T> get_vector() {
    std::vector<T> values(counted<T>());
    take(values.data(), values.size() * sizeof(T));
    return values;
  }
  std::string get_text() {
    std::string text(counted<char>(), '\0');
    take(text.data(), text.size());
    return text;
  }
  bool empty() const { return bytes_.empty(); }

 private:
  template <class T>
  std::size_t counted() {
    const auto count = get<std::size_t>();
    require(count <= bytes_.size() / sizeof(T), "a message between processes is cut short");
    return count;
  }
  void take(void* to, std::size_t bytes) {
    require(bytes <= bytes_.size(), "a message between processes is cut short");
    if (bytes > 0) std::memcpy(to, bytes_.data(), bytes);
    bytes_ = bytes_.subspan(bytes);
  }

  std::span<const std::byte> bytes_;
};

}  // namespace tandem::exec
