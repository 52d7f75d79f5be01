#pragma once
// The format of a row in results.jsonl: a JSON object on one line whose last member is a checksum.

#include <string>
#include <string_view>

namespace tandem::study {

/// Makes the line of a row (a non-empty JSON object as text) by adding `checksum` as its last member.
std::string sealed(const std::string& row);

/// The row of a line. Empty if the checksum is missing or wrong, or if it is no row of a sweep: nested too deep, unknown status, or
/// a key missing or of the wrong type.
std::string unsealed(const std::string& line);

/// True if a line of `log` begins like a row, intact or not. Then the file is a sweep's, of any version.
bool has_rows(std::string_view log);

}  // namespace tandem::study
