#pragma once
// From judged records to the table of errors that ranges rest on.

#include <string>
#include <vector>

#include "experiments/tandem/validation/judged_record.hpp"
#include "sim/result/error_book.hpp"

namespace tandem::program {

/// Today, as "2026-11-20".
std::string today();

/// Errors of the timed records of grades A and B by device, situation and set, in alphabetical order; the wide default is
/// kept from `before`. Devices without a calibration are left out: nothing would find their entries. `by` names the program.
/// The book's widening makes the range of 80 % of records hold, every set with one vote, when no record of theirs or of the sets
/// that they were predicted without is used.
sim::ErrorBook error_book(const std::vector<JudgedRecord>& records, const sim::ErrorBook& before, const std::string& by);

}  // namespace tandem::program
