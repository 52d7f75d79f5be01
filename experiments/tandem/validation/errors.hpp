#pragma once
// Computes the error book, on which predicted ranges rest, from judged records.

#include <string>
#include <vector>

#include "experiments/tandem/validation/judged_record.hpp"
#include "sim/result/error_book.hpp"

namespace tandem::program {

/// Today's date, as "2026-11-20".
std::string today();

/// Errors of the timed records of grades A and B, by device, situation and set, alphabetically. Default ranges are kept from
/// `before`. Devices without a calibration are omitted, since their entries could not be found. `by`: the program. The book's
/// widening factor is chosen so that ranges hold 80 % of records, with equal votes per set, when predicted without the record's own
/// set.
sim::ErrorBook error_book(const std::vector<JudgedRecord>& records, const sim::ErrorBook& before, const std::string& by);

}  // namespace tandem::program
