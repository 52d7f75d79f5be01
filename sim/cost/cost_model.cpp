#include "sim/cost/cost_model.hpp"

#include <algorithm>
#include <cmath>

#include "models/base/error.hpp"
#include "models/base/files.hpp"
#include "models/base/left_out.hpp"
#include "models/base/presets.hpp"
#include "reports/prediction/text.hpp"
#include "sim/cost/calibration.hpp"
#include "sim/cost/cost_table.hpp"
#include "sim/cost/measured_note.hpp"
#include "sim/cost/product_table.hpp"
#include "sim/cost/roofline.hpp"
#include "sim/cost/slowest.hpp"
#include "sim/cost/time_limit.hpp"
#include "topology/power_limit.hpp"
#include "topology/preset.hpp"

namespace tandem::sim {
namespace {

constexpr const char* kUncalibrated =
    "the device has no calibration: its arithmetic, memory and network are taken to reach all of their published rates, which is a bound "
    "and no prediction; give it \"calibration\", e.g. \"h100\" (a file of topology/calibration)";

/// FLOPs in 16 bits for each byte of memory bandwidth: published accelerators have 30 to 500. A rate in another unit is a thousand times off.
constexpr double kFewestFlops = 1, kMostFlops = 20'000;

/// A note if the device's rates do not go together.
std::optional<std::string> doubtful_rates(const Device& device) {
  const auto narrow = [](const auto& rate) { return rate.first == DType::bf16 || rate.first == DType::fp16; };
  const auto known = std::find_if(device.peak.begin(), device.peak.end(), narrow);
  if (device.synchronous || known == device.peak.end()) return {};
  const double flops = known->second.flops_per_second() / device.memory_bandwidth.bytes_per_second();
  if (flops >= kFewestFlops && flops <= kMostFlops) return {};
  return "the device's peak_flops_per_s in 16 bits is " + (flops < kFewestFlops ? number_text(flops, 2) : count_text(std::llround(flops))) +
         " FLOPs for each byte of memory_bytes_per_s; published devices have 30 to 500: is one of them in another unit?";
}

/// The same device with its arithmetic `factor` times as fast.
void scale_arithmetic(Device& device, double factor) {
  for (auto& [type, rate] : device.peak) rate = FlopRate::flops_per_second(rate.flops_per_second() * factor);
  device.vector_rate = FlopRate::flops_per_second(device.vector_rate.flops_per_second() * factor);
}

class DeviceCosts final : public CostModel {
 public:
  DeviceCosts(const Device& device, std::int64_t together, const std::optional<CostTable>& table, std::vector<std::string> notes)
      : device_(device), calibration_(load_calibration(device.calibration)), notes_(std::move(notes)),
        launch_(calibration_.launch.value_or(device.host_launch)), slowest_(slowest_of(together, calibration_.spread)) {
    scale_arithmetic(device_, 1 / slowest_);
    if (device.calibration.empty()) notes_.push_back(kUncalibrated);
    if (auto doubtful = doubtful_rates(device)) notes_.push_back(std::move(*doubtful));
    if (!calibration_.caveat.empty()) notes_.push_back(kCaveat + calibration_.caveat);
    for (const std::string& fact : calibration_.unverified) notes_.push_back("not verified: " + fact);
    before_ = device_;
    if (device_.clock < 1) scale_arithmetic(device_, device_.clock);
    if (table) use(*table);
  }
  DeviceCosts(const Device& device, std::int64_t together, std::shared_ptr<const ProductTable> products)
      : DeviceCosts(device, together, std::nullopt, {}) {
    products_ = std::move(products);
    measured_with(products_->device() == device_.preset ? products_->memory() : std::nullopt);
    if (device_.clock < 1 && products_->power_limit()) measured_under(*products_->power_limit());
  }

  Duration duration(const Op& op, DType compute) const override {
    require(!is_communication(op), "communication has no cost on one device");
    const double alone = seconds(op, compute);
    return within_time_limit(threads_ == 1 ? alone : alone * of_processors(threads_) / static_cast<double>(threads_));
  }
  Duration launch() const override { return launch_; }
  bool covered(const Op& op, DType compute) const override {
    if (is_communication(op)) return false;
    if (measured_ && measured_->seconds(op, compute)) return true;
    return products_ && (products_->seconds(op, compute) || products_->seconds(without_activation(op), compute));
  }
  double slowdown(std::int64_t active) const override {
    return threads_ == 1 ? of_processors(active) : std::max(1.0, of_processors(active * threads_) / of_processors(threads_));
  }
  std::optional<Duration> communication(const Op& op, std::int64_t ranks) const override {
    require(is_communication(op), "computation has no cost between devices");
    const auto seconds = measured_ ? measured_->communication(op, ranks) : std::nullopt;
    return seconds ? std::optional(within_time_limit(*seconds)) : std::nullopt;
  }
  CommFit comm_fit() const override { return calibration_.comm; }
  const ProductTable* products() const override { return products_.get(); }
  std::vector<std::string> unmeasured() const override { return measured_ ? measured_->missing() : std::vector<std::string>{}; }
  std::vector<std::string> notes() const override { return notes_; }
  /// Lets `threads` processors share each computation of a rank.
  void share(std::int64_t threads) {
    threads_ = threads;
    if (threads == 1) return;
    const std::string n = std::to_string(threads);
    notes_.push_back("cluster.threads_per_rank: " + n + " threads of a rank were not measured; a computation takes the time of one, divided by " +
                     n + " and times how much " + n + " processors slow each other down");
  }

 private:
  /// Factor on a processor's time while `active` processors of a node compute.
  double of_processors(std::int64_t active) const {
    const std::int64_t last = static_cast<std::int64_t>(slowdown_.size()) - 1;
    return slowdown_[static_cast<std::size_t>(std::clamp<std::int64_t>(active - 1, 0, last))];
  }
  /// Seconds of an operation. With another memory or clock than a table's, a measured time changes by the ratio that the roofline's
  /// does: with the clock where arithmetic is the bound, with the bandwidth where memory is.
  double seconds(const Op& op, DType compute) const {
    const auto whole = measured_ ? measured_->seconds(op, compute) : std::nullopt;
    const double then = whole ? *whole : roofline_seconds(op, compute, before_, calibration_, products(), slowest_);
    if (before_.memory_bandwidth == device_.memory_bandwidth && device_.clock == before_clock_) return then;
    const double now = roofline_seconds(op, compute, device_, calibration_);
    return covered(op, compute) ? then * (now / roofline_seconds(op, compute, before_, calibration_)) : now;
  }
  /// Sets the bandwidth of the memory that the table was measured with. If it is not known, it is that of the device's preset.
  void measured_with(std::optional<Bandwidth> memory) {
    if (!memory)
      if (const auto preset = find_device_preset(device_.preset)) memory = preset->memory_bandwidth;
    if (memory) before_.memory_bandwidth = *memory;
  }
  /// Sets the clock that the table was measured at. A card that was measured under a limit of its own never becomes faster.
  void measured_under(double watts) {
    const auto curve = power_curve(device_.preset);
    if (!curve) return;
    before_clock_ = std::max(curve->clock(watts), device_.clock);
    scale_arithmetic(before_, before_clock_);
  }
  void use(const CostTable& table) {
    measured_.emplace(table);
    measured_with(std::nullopt);
    launch_ = Duration::seconds(table.launch_s);
    slowdown_.clear();
    for (double factor : table.slowdown) slowdown_.push_back(std::max(1.0, factor));
  }

  Device device_, before_;  ///< `before_`: with the memory and at the clock that the table was measured with
  double before_clock_ = 1;
  Calibration calibration_;
  std::vector<std::string> notes_;
  Duration launch_;
  double slowest_;  ///< ratio of the slowest device's arithmetic time to the mean one's
  std::optional<MeasuredCosts> measured_;  ///< a processor's table
  std::shared_ptr<const ProductTable> products_;  ///< an accelerator's table
  std::vector<double> slowdown_{1.0};
  std::int64_t threads_ = 1;  ///< threads of a rank
};

/// The name of a table in messages: its name, or its file without folders.
std::string shown(const std::string& table) { return table.substr(table.rfind('/') + 1); }

/// Names the table that costs are taken from, as predictions by one machine's table hold for that machine.
std::string table_note(const CostTable& table, const std::string& place) {
  const std::string of = table.host + (table.host.empty() || table.date.empty() ? "" : ", ") + table.date;
  return std::string(kMeasuredTable) + place + (of.empty() ? "" : " (" + of + ")") + ": costs are its measurements of this host, where it has them";
}

/// Costs from a measured table at `place`. An accelerator's launches and memory-bound kernels are not those of a framework, so only its
/// products are used.
std::unique_ptr<DeviceCosts> with_table(const Device& device, std::int64_t together, const CostTable& table,
                                        const std::string& place) {
  if (table.of_accelerator())
    return std::make_unique<DeviceCosts>(device, together, std::make_shared<const ProductTable>(table, shown(place)));
  return std::make_unique<DeviceCosts>(device, together, table, std::vector{table_note(table, place)});
}

std::unique_ptr<DeviceCosts> device_costs(const Device& device, std::int64_t together) {
  if (device.cost_table.empty() && !device.measured.empty())
    if (auto products = measured_products(device.measured, device); !rests_on_left_out(products->source()))
      return std::make_unique<DeviceCosts>(device, together, std::move(products));
  if (device.cost_table.empty()) return std::make_unique<DeviceCosts>(device, together, std::nullopt, std::vector<std::string>{});
  const bool named = !is_preset_path(device.cost_table);
  const std::string path = named ? measured_table_path(device.cost_table) : device.cost_table;
  if (!named || file_exists(path)) return with_table(device, together, load_cost_table(path), path);
  const std::error_code reason = file_state(path).reason;
  const std::string why = reason ? " (" + reason.message() + ")" : "";
  const std::string note = "no measured table " + path + why + ": costs are a roofline of unverified facts; run `tandem measure`";
  return std::make_unique<DeviceCosts>(device, together, std::nullopt, std::vector{note});
}

}  // namespace

std::unique_ptr<CostModel> make_cost_model(const Device& device, std::int64_t together) { return device_costs(device, together); }

std::unique_ptr<CostModel> make_cost_model(const Topology& topology) {
  auto costs = device_costs(topology.device(), topology.devices());
  costs->share(topology.threads_per_rank());
  return costs;
}

std::unique_ptr<CostModel> make_cost_model(const Device& device, const CostTable& table) {
  return with_table(device, 1, table, table.device);
}

}  // namespace tandem::sim
