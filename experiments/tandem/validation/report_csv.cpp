#include "experiments/tandem/validation/report.hpp"

#include <sstream>

#include "models/base/text.hpp"

namespace tandem::program {

namespace {

std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (char c : printable(text, "\n")) out += c == '"' ? std::string("\"\"") : std::string(1, c);
  return out + "\"";
}

std::string cell(const std::optional<double>& v) {
  std::ostringstream out;
  out.precision(9);
  if (v) out << *v;
  return out.str();
}

}  // namespace

std::string to_csv(const std::vector<JudgedRecord>& records) {
  std::string out = "id,set,grade,device,compute,devices,predicted_step_time_s,measured_step_time_s,error,low_s,high_s,baseline_s,"
                    "predicted_peak_memory_bytes,measured_peak_memory_bytes,fits,out_of_memory,plan,refused\n";
  for (const JudgedRecord& r : records) {
    const auto error = r.timed() ? std::optional(r.time_error()) : std::nullopt;
    for (const std::string& text : {r.measured.id, r.measured.set, r.measured.grade, r.plan.device, r.plan.compute})
      out += quoted(text) + ",";
    out += std::to_string(r.plan.devices) + ",";
    for (const auto& v : {r.step_time_s, r.measured.step_time_s, error, r.low_s, r.high_s, r.baseline_s, r.peak_memory_bytes,
                          r.measured.peak_memory_bytes})
      out += cell(v) + ",";
    out += std::string(r.refused.empty() ? (r.fits ? "true" : "false") : "") + ",";
    out += std::string(r.measured.out_of_memory ? "true" : "false") + "," + quoted(r.plan.summary) + "," + quoted(r.refused) + "\n";
  }
  return out;
}

}  // namespace tandem::program
