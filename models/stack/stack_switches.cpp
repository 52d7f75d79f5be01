#include "models/stack/stack_switches.hpp"

#include <nlohmann/json.hpp>

#include "models/stack/stack_file.hpp"

namespace tandem {

namespace {

void set(Plan& plan, const DefaultEntry& entry) { find_field(entry.field)->read(entry.value_for(plan), plan); }

}  // namespace

StackSwitches::StackSwitches(const Plan& plan) : as_of_(plan.stack.as_of), file_(load_stack(plan.stack.name)) {
  for (const DefaultEntry& entry : file_->switched_on)
    if (entry.in_time(as_of_)) fields_.insert(entry.field);
}

void StackSwitches::force(Plan& plan, const std::string& field) const {
  for (const DefaultEntry& entry : file_->switched_on)
    if (entry.field == field && entry.in_time(as_of_)) return set(plan, entry);
}

void StackSwitches::turn_on(Plan& draft, Given& given) const {
  if (fields_.empty()) return;
  for (const DefaultEntry& entry : file_->switched_on) {
    if (fields_.count(entry.field) == 0 || given.contains(entry.field) || !entry.holds(as_of_, draft)) continue;
    set(draft, entry);
    given.insert(entry.field);
  }
}

std::set<std::string> StackSwitches::read_by(const std::string& field) const {
  std::set<std::string> out;
  if (fields_.count(field) == 0) return out;
  for (const DefaultEntry& entry : file_->switched_on) {
    if (entry.field != field) continue;
    for (const auto& [read, condition] : entry.when->items()) out.insert(read);
  }
  return out;
}

}  // namespace tandem
