#pragma once
// A validation as text tables, JSON, CSV and an HTML page.

#include <string>

#include "experiments/tandem/validation/left_out.hpp"

namespace tandem::program {

/// Tables of at most 140 columns; errors in percent. `left_out`: null if no source was left out.
std::string to_text(const Summary& summary, const std::vector<JudgedRecord>& records, const LeftOutSummary* left_out = nullptr);

/// The keys of `validate --json` (schema_version 1). Fractions and SI units; one line per record.
std::string to_json(const Summary& summary, const std::vector<JudgedRecord>& records, const LeftOutSummary* left_out = nullptr);

/// One line per record. The first line names the columns.
std::string to_csv(const std::vector<JudgedRecord>& records);

/// A self-contained HTML page: predicted against measured, tables, every record.
std::string to_html(const Summary& summary, const std::vector<JudgedRecord>& records);

}  // namespace tandem::program
