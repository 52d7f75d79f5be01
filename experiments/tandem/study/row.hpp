#pragma once
// The form of a row in results.jsonl: a JSON object on one line that ends with a checksum over itself.

#include <string>
#include <string_view>

namespace tandem::study {

/// The line of a row (a JSON object as text, not empty): the row with `checksum` as its last member.
std::string sealed(const std::string& row);

/// The row of such a line. Empty where the checksum is missing or does not match, or where this is no row of a sweep: nested too
/// deep, of an unknown status, a key missing or of another type than a sweep writes.
std::string unsealed(const std::string& line);

/// Whether a line of `log` begins as a row does, damaged or not: the file is of a sweep, of any version.
bool has_rows(std::string_view log);

}  // namespace tandem::study
