#include "exec/process/together.hpp"

#include <string>
#include <vector>

#include "models/base/error.hpp"

namespace tandem::exec {
namespace {

std::vector<Problem> problems_of(const std::function<void()>& work) {
  try {
    work();
    return {};
  } catch (const ConfigError& e) {
    return e.problems();
  }
}

Bytestring packed(const std::vector<Problem>& problems) {
  Packer out;
  for (const Problem& p : problems) out.add(p.file).add(p.field).add(p.value).add(p.reason).add(p.remedy);
  return out.take();
}

std::vector<Problem> unpacked(const Bytestring& bytes) {
  std::vector<Problem> problems;
  for (Unpacker from(bytes); !from.empty();) {
    Problem p;
    for (std::string* text : {&p.file, &p.field, &p.value, &p.reason, &p.remedy}) *text = from.get_text();
    problems.push_back(std::move(p));
  }
  return problems;
}

}  // namespace

void together(Control& control, const std::function<void()>& work) {
  Bytestring first;
  for (Bytestring& one : control.gather(packed(problems_of(work))))
    if (first.empty()) first = std::move(one);
  if (const Bytestring told = control.broadcast(std::move(first)); !told.empty()) throw ConfigError(unpacked(told));
}

}  // namespace tandem::exec
