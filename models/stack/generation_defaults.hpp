#pragma once
// Defaults that a stack has for devices of some generations alone. Private to models/stack.

#include <string>
#include <vector>

namespace tandem {

struct Plan;
struct StackFile;

/// Fields of a completed plan, with values, that the stack would set if the device had one of the generations that its rules name:
/// "parallel.overlap_tensor_sum true". Includes the fusion set where the plan names none.
std::vector<std::string> generation_defaults(const Plan& plan, const StackFile& stack);

}  // namespace tandem
