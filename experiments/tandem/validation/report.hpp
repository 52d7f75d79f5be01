#pragma once
// A validation as tables for people, JSON and CSV for programs, and one page.

#include <string>

#include "experiments/tandem/validation/left_out.hpp"

namespace tandem::program {

/// Tables of at most 140 columns; errors in percent. `left_out` null: nothing was left out.
std::string to_text(const Summary& summary, const std::vector<JudgedRecord>& records, const LeftOutSummary* left_out = nullptr);

/// The keys of `validate --json` (schema_version 1): fractions and SI units; every record on a line of its own.
std::string to_json(const Summary& summary, const std::vector<JudgedRecord>& records, const LeftOutSummary* left_out = nullptr);

/// One line a record, the first names the columns.
std::string to_csv(const std::vector<JudgedRecord>& records);

/// One HTML page that asks nobody for anything: predicted against measured, tables, every record.
std::string to_html(const Summary& summary, const std::vector<JudgedRecord>& records);

}  // namespace tandem::program
