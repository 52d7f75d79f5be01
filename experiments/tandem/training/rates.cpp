#include "experiments/tandem/training/rates.hpp"

#include <cmath>
#include <cstdio>

#include "reports/prediction/text.hpp"

namespace tandem::program {
namespace {

double seconds(RateWatch::Clock::duration d) { return std::chrono::duration<double>(d).count(); }

/// Hours, minutes and seconds: "31:07:45".
std::string clock_text(double s) {
  const auto all = static_cast<long long>(std::llround(s));
  char text[40];
  std::snprintf(text, sizeof text, "%lld:%02lld:%02lld", all / 3600, all / 60 % 60, all % 60);
  return text;
}

/// TFLOP/s of a small model on a core are thousandths.
int digits_of(double teraflops) { return teraflops < 0.1 ? 4 : teraflops < 10 ? 2 : 1; }

}  // namespace

double RateWatch::model_flops(std::int64_t batch) {
  const auto known = flops_.find(batch);
  return known != flops_.end() ? known->second : flops_[batch] = scale_.model_flops(batch);
}

/// The first step is slower than others, so it counts only while there is no other.
double RateWatch::remaining(const exec::StepResult& step, Clock::time_point now) const {
  const double pace = done_ > 1 ? seconds(now - first_ended_) / static_cast<double>(done_ - 1) : step.step_time_s;
  return pace * static_cast<double>(scale_.steps - done_);
}

StepRates RateWatch::add(const exec::StepResult& step, Clock::time_point now) {
  if (done_++ == 0) {
    first_ended_ = now;
    first_began_ = now - std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(step.step_time_s));
  }
  skipped_ += step.skipped() ? 1 : 0;
  StepRates r;
  r.samples_per_s = static_cast<double>(step.global_batch_size) / step.step_time_s;
  r.tokens_per_s = static_cast<double>(step.global_batch_size * scale_.sequence_tokens) / step.step_time_s;
  r.tokens_per_s_per_device = r.tokens_per_s / static_cast<double>(scale_.devices);
  const double flops_per_s = model_flops(step.global_batch_size) / step.step_time_s;
  r.model_flops_per_s_per_device = flops_per_s / static_cast<double>(scale_.devices);
  if (scale_.peak_flops_per_s) r.mfu = flops_per_s / *scale_.peak_flops_per_s;
  r.elapsed_s = seconds(now - first_began_);
  r.remaining_s = remaining(step, now);
  r.skipped_steps = scale_.skipped_before + skipped_;
  return r;
}

std::string rates_text(const StepRates& r) {
  const double teraflops = r.model_flops_per_s_per_device * 1e-12;
  return aligned(number_text(r.tokens_per_s_per_device, 0), 7) + " tokens/s/device  " + number_text(teraflops, digits_of(teraflops)) +
         " TFLOP/s/device  left " + clock_text(r.remaining_s);
}

}  // namespace tandem::program
