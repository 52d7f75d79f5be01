#pragma once
// Measured times of one device, as `tandem measure` writes and the simulator reads them. A table holds only measurements:
// the cost model interpolates between them.

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "models/base/units.hpp"
#include "models/ops/op.hpp"

namespace tandem {

/// The kernel with which a product was timed. Others can run it on the card and with the library that the table's facts name.
struct ProductKernel {
  DType result = DType::fp32;          ///< type of the product's result
  std::int64_t alignment = 0, vector_alignment = 0;  ///< bytes that divide addresses: of its matrices; of its bias or sums
  std::string algorithm;               ///< as the library names it; empty: no such kernel
};

/// The measured time of one computation: `seconds` is one call on a device that nobody else used.
struct CostSample {
  Op op;
  DType dtype = DType::fp32;   ///< compute type
  double seconds = 0;
  double sustained_s = 0;      ///< `seconds` in steady load, after a second of nothing else; 0: not measured
  Bytes moved{};               ///< bytes that a memory-bound kernel must read and write; 0: not stated
  std::optional<ProductKernel> kernel{};
};

/// The measured time of one copy. kind: "device" (within its memory), "to_device" or "to_host" (pinned memory).
struct CopySample {
  std::string kind;
  Bytes bytes;                 ///< bytes copied: each is read once and written once
  double seconds = 0;
};

/// One number about a device, and how it was measured.
struct Figure {
  std::string name;            ///< e.g. "power_limit"; may occur again with another `how`
  double value = 0;
  std::string unit, how;
};

/// The measured time of one communication, from the last rank's arrival to the last rank's end.
struct CommSample {
  std::string kind;            ///< communication_name of the operation: "all_reduce", "all_gather", ..., "send"
  int ranks = 2;               ///< size of the group; 2 for a send
  Bytes bytes;                 ///< payload: the full vector
  double seconds = 0;
};

/// A device's measured costs. Samples may come in any order; operations may be repeated.
struct CostTable {
  std::string device;          ///< the preset it describes, e.g. "cpu-host"
  std::string date;            ///< ISO 8601
  std::string host;            ///< processor, cores, memory, as the operating system names them
  std::string compiler;
  std::string notes;
  std::vector<CostSample> samples;
  std::vector<CommSample> comm;
  double launch_s = 0;         ///< host time between two tasks of an empty program
  /// [k-1]: time of a computation when k ranks compute at once on cores of their own, over its time alone. At least {1}.
  std::vector<double> slowdown{1.0};
  /// More about an accelerator: its card, driver and library versions by name; figures; copies. Empty for processors.
  std::map<std::string, std::string> facts;
  std::vector<Figure> figures;
  std::vector<CopySample> copies;
  /// Memory of one rank's process beside the arenas.
  Bytes runtime_bytes;

  bool of_accelerator() const { return !facts.empty(); }
};

/// Path of the measured table of a device of this machine: $TANDEM_MEASURED/<device>.json, else
/// $XDG_DATA_HOME/tandem/measured, else ~/.local/share/tandem/measured. The file need not exist: `tandem measure` writes it
/// there by default, and the cost model reads it there.
std::string measured_table_path(std::string_view device);

/// Writes / reads a table (JSON, schema_version 1). Writing is atomic: a temporary file is renamed. Throws ConfigError on a
/// bad file, naming the wrong entry.
void save_cost_table(const CostTable& table, const std::string& path);
CostTable load_cost_table(const std::string& path);

}  // namespace tandem
