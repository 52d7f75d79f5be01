#pragma once
// Arguments that no expression of a table reads.

#include <set>
#include <string>

#include "models/arguments/imported_plan.hpp"
#include "models/huggingface/facts.hpp"

namespace tandem::arguments {

/// Arguments that the table's expressions read under some condition.
std::set<std::string> read_somewhere(const Table& table);

/// Sorts the arguments that `facts` has not read: those that change no operation, those that no field says, those that are unknown.
/// The last two become features that are refused; of a printed block only those that the framework has, for nobody chose the others.
void sort_unread(const Table& table, const huggingface::Facts& facts, const Arguments& arguments, ImportedPlan& out);

}  // namespace tandem::arguments
