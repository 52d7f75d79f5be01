#pragma once
// Numbers with units, as people write them. b is a bit and B a byte, k M G T P are powers of 1000 and Ki Mi Gi Ti Pi
// powers of 1024; nothing is guessed. A refusal is a ConfigError whose Problem has value, reason and remedy filled in;
// file and field are the caller's.

#include <string>
#include <string_view>

#include "models/base/error.hpp"
#include "models/base/units.hpp"

namespace tandem {

/// "80 GiB", "160 MB", "512 B": a whole number of bytes.
Bytes parse_bytes(std::string_view text);
/// "400 Gb/s", "50 GB/s": finite and positive.
Bandwidth parse_bandwidth(std::string_view text);
/// "2 us", "1.5 ms", "10 s": not negative, to the nearest picosecond.
Duration parse_duration(std::string_view text);
/// "312 TFLOP/s": finite and positive.
FlopRate parse_flop_rate(std::string_view text);

/// The shortest text that parse_bytes and parse_bandwidth read back to exactly the same value.
std::string text_of(Bytes bytes);
std::string text_of(Bandwidth bandwidth);

}  // namespace tandem
