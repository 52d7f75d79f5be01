#pragma once
// Fields that a framework has off unless an option says otherwise, and that shorten steps. A search turns them on.

#include <memory>
#include <set>
#include <string>

#include "models/fields/plan_fields.hpp"
#include "models/plan/plan.hpp"

namespace tandem {

struct StackFile;

class StackSwitches {
 public:
  StackSwitches() = default;
  /// Those of a completed plan's stack at its date. Throws ConfigError for a stack that cannot be read.
  explicit StackSwitches(const Plan& plan);

  const std::set<std::string>& fields() const { return fields_; }
  void drop(const std::string& field) { fields_.erase(field); }
  /// Sets a field as the stack's file says, whatever the conditions.
  void force(Plan& plan, const std::string& field) const;
  /// Sets the fields that `given` lacks and whose conditions hold, in the file's order, and adds them to `given`. Conditions see the
  /// draft: its degrees must be known, and defaults of the stack are not filled in yet.
  void turn_on(Plan& draft, Given& given) const;
  /// Fields that the conditions of one field read.
  std::set<std::string> read_by(const std::string& field) const;

 private:
  Month as_of_;
  std::shared_ptr<const StackFile> file_;
  std::set<std::string> fields_;
};

}  // namespace tandem
