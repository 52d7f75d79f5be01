#pragma once
// Ranks as bare threads with a communicator each, and vectors for them to exchange.

#include <cstring>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "exec/communicator/communicator.hpp"
#include "models/base/error.hpp"

namespace tandem::exec::tests {

inline std::vector<Rank> ranks(int n, int first = 0) {
  std::vector<Rank> r;
  for (int i = 0; i < n; ++i) r.emplace_back(first + i);
  return r;
}

/// Runs `body(rank)` on n threads; the messages of the CommErrors they ended with, empty where there was none.
inline std::vector<std::string> on_ranks(int n, const std::function<void(int)>& body) {
  std::vector<std::string> errors(static_cast<std::size_t>(n));
  std::vector<std::thread> threads;
  for (int r = 0; r < n; ++r)
    threads.emplace_back([&, r] {
      try {
        body(r);
      } catch (const CommError& e) {
        errors[static_cast<std::size_t>(r)] = e.what();
      }
    });
  for (auto& t : threads) t.join();
  return errors;
}

/// Values whose sums depend on the order they are added in.
template <class T>
std::vector<std::vector<T>> values(int n, std::int64_t elements) {
  std::uint64_t state = 88172645463325252ULL;
  std::vector<std::vector<T>> all(static_cast<std::size_t>(n), std::vector<T>(static_cast<std::size_t>(elements)));
  for (auto& v : all)
    for (auto& x : v) {
      state ^= state << 13, state ^= state >> 7, state ^= state << 17;
      x = static_cast<T>(static_cast<double>(static_cast<std::int64_t>(state) >> 38) * 1.1);  // eight fit an int32
      if (state % 5 == 0) x = static_cast<T>(x / 1024);
    }
  return all;
}

template <class T>
std::byte* bytes(std::vector<T>& v) { return reinterpret_cast<std::byte*>(v.data()); }

template <class T>
constexpr DType dtype() {
  if constexpr (std::is_same_v<T, double>) return DType::fp64;
  else if constexpr (std::is_same_v<T, float>) return DType::fp32;
  else if constexpr (std::is_same_v<T, std::int64_t>) return DType::int64;
  else return DType::int32;
}

template <class T>
bool same_bits(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0);
}

/// One member's part in a collective that works in place.
template <class T>
TimePoint in_place(Communicator& comm, const Collective& op, const Participants& participants, std::vector<T>& v) {
  return comm.run(op, participants, bytes(v), bytes(v));
}

}  // namespace tandem::exec::tests
