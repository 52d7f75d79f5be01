#include "topology/preset.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>
#include <set>

#include "models/base/files.hpp"
#include "models/base/held_files.hpp"
#include "models/base/json.hpp"
#include "models/base/presets.hpp"
#include "models/base/quantity.hpp"
#include "models/base/text.hpp"
#include "models/stack/generations.hpp"
#include "topology/fact_reader.hpp"
#include "topology/overrides.hpp"

namespace tandem {
namespace {

using nlohmann::json;

constexpr std::string_view kClusters = "topology/presets";
constexpr std::string_view kNodes = "topology/presets/nodes";
constexpr std::string_view kDevices = "topology/presets/devices";

/// Returns `path` if it can be read, else throws ConfigError; the caller adds the plan's file.
std::string readable_cluster(const std::string& path) {
  const std::string why = why_unreadable(path);
  if (why.empty()) return path;
  throw ConfigError(Problem{"", "cluster.preset", '"' + shortened(path) + '"', why,
                            std::string("a name with \"/\" or \".json\" is the path of a cluster file: give one that is there") +
                                (path.starts_with('~') ? ", with the home folder written out" : "") + ", or a preset's name"});
}

/// Refuses a field that names a file which cannot be read.
void require_readable(const FactReader& r, const std::string& key, const std::string& path) {
  if (const std::string why = why_unreadable(path); !why.empty())
    r.refuse(key, shortened(path) + ": " + why, "give the path of a file, from the folder of this one or from here, or a preset's name");
}

/// Reads a part of a preset: an object in place, or a preset or file by name.
template <class Read>
void read_part(FactReader& parent, const std::string& key, std::string_view folder, std::vector<std::string>& unverified,
               const Read& read) {
  if (const json& value = parent.raw(key); !value.is_string()) {
    FactReader in_place = parent.object(key);
    read(in_place);
    return in_place.finish();
  }
  const std::string name = parent.text(key, "");
  const std::string path = is_preset_path(name) ? beside(name, parent.file()) : find_preset(folder, name);
  if (path.empty()) parent.refuse(key, "there is no such preset in " + std::string(folder), "give a name from there or an object");
  require_readable(parent, key, path);
  const json file = read_json(path);
  FactReader reader(file, path, "", unverified);
  read(reader);
  reader.finish();
}

// ---- device ----

/// The types in which products run, for a message.
std::string compute_types() {
  std::vector<std::string> out;
  using enum DType;
  for (const DType t : {fp64, fp32, tf32, bf16, fp16, fp8, fp8_block, mxfp8, nvfp4}) out.emplace_back(name(t));
  return list_text(out, "or");
}

void read_peak(FactReader& r, Device& d) {
  const json& rates = r.fact("peak_flops_per_s");
  if (!rates.is_object() || rates.empty())
    r.refuse("peak_flops_per_s", "needs a rate for each compute type",
             "write for example {\"bf16\": \"312 TFLOP/s\", \"fp32\": \"19.5 TFLOP/s\"}");
  for (const auto& [type, value] : rates.items()) {
    const auto dtype = dtype_from_name(type);
    if (!dtype) r.refuse("peak_flops_per_s", "\"" + type + "\" is no element type", "use " + compute_types() + ", and leave out rates of others");
    d.peak[*dtype] = r.rate("peak_flops_per_s", value, type + " ");
  }
}

/// Reads a preset's name, or a path, which is relative to the folder of the file that has it.
std::string name_or_path(FactReader& r, const std::string& key, const std::string& otherwise) {
  const std::string given = r.text(key, otherwise);
  if (given.empty() || !r.has(key)) return given;
  if (!is_preset_path(given) && !is_preset_name(given))
    r.refuse(key, "is neither the name of a preset nor a path", "use letters, digits, \"-\", \"_\", \".\" and \"+\", at most 128");
  return is_preset_path(given) ? beside(given, r.file()) : given;
}

/// Generations of the device presets, and those that stack files name, ascending.
std::vector<std::string> known_generations() {
  std::set<std::string> out = stack_generations();
  for (const std::string& name : preset_names(kDevices)) {
    const json device = read_json(find_preset(kDevices, name));
    const json generation = device.is_object() ? device.value("generation", json()) : json();
    if (generation.is_string()) out.insert(generation.get<std::string>());
  }
  return {out.begin(), out.end()};
}

/// The device's generation; empty if the file names none. Defaults of stacks depend on it, so a user's own device may not have one
/// that no preset and no stack file names. A device `preset` may: it makes its generation known.
std::string generation(FactReader& r, const std::string& preset) {
  const std::string given = r.text("generation", "");
  const bool is_preset = !preset.empty() && !is_preset_path(preset);
  if (given.empty() || is_preset) return given;
  thread_local HeldAnswers<std::vector<std::string>> held;
  const std::vector<std::string> known = held.get("", known_generations);
  if (std::find(known.begin(), known.end(), given) != known.end()) return given;
  stack_generations(true);  // a stack file that cannot be read may name it
  const std::string meant = nearest(given, known);
  r.refuse("generation", "is a generation that no device preset and no stack file names",
           (meant.empty() ? "use " + list_text(known, "or") : "did you mean \"" + meant + "\"?") +
               " Leave it out for a new one, or add it to \"default_on\" of a stack file");
}

/// name_or_path() of a data file. Refuses a name that no preset in `folder` has: a path is for its reader.
std::string data_file(FactReader& r, const std::string& key, const std::string& otherwise, std::string_view folder,
                      std::string_view what) {
  const std::string given = name_or_path(r, key, otherwise);
  if (!r.has(key) || given.empty() || is_preset_path(given) || !find_preset(folder, given).empty()) return given;
  const Problem unknown = unknown_preset(folder, given, what);
  r.refuse(key, unknown.reason, unknown.remedy);
}

std::string calibration(FactReader& r, const std::string& otherwise) {
  return data_file(r, "calibration", otherwise, "topology/calibration", "calibration");
}

void read_device(FactReader& r, Device& d, const std::string& preset) {
  d.preset = preset;
  d.name = r.text("name", preset);
  d.generation = generation(r, preset);
  r.text("notes", "");
  read_peak(r, d);
  d.vector_rate = r.rate("vector_flops_per_s");
  d.memory = r.bytes("memory_bytes");
  if (d.memory < kLeastMemory) r.refuse("memory_bytes", "is less than a megabyte", "write for example \"80 GiB\"");
  d.usable_memory = r.has("usable_memory_bytes") ? r.bytes("usable_memory_bytes") : d.memory;
  if (d.usable_memory < kLeastMemory) r.refuse("usable_memory_bytes", "is less than a megabyte", "write for example \"79.25 GiB\"");
  if (d.usable_memory > d.memory)
    r.refuse("usable_memory_bytes", "is more than memory_bytes", "lower it, or leave it out if processes can use all");
  d.memory_bandwidth = r.bandwidth("memory_bytes_per_s");
  d.host_launch = r.duration("host_launch_s");
  if (r.has("runtime_bytes")) d.runtime_memory = r.bytes("runtime_bytes");
  if (r.has("library_bytes")) d.library_memory = r.bytes("library_bytes");
  if (r.has("compute_units")) d.compute_units = r.whole("compute_units", 1);
  d.synchronous = r.flag("synchronous", false);
  d.calibration = calibration(r, "");
  d.measured = data_file(r, "measured", "", "topology/measured", "measured table");
  d.cost_table = name_or_path(r, "cost_table", "");
}

// ---- node ----

constexpr std::string_view kTorus2d = "torus2d", kTorus3d = "torus3d";

ScaleUp read_kind(FactReader& r) {
  using enum ScaleUp;
  const std::string kind = r.text("kind", "");
  if (kind == kTorus2d || kind == kTorus3d) return torus;
  for (ScaleUp s : {crossbar, full_mesh, cube_mesh, shared_memory, pcie})
    if (kind == name(s)) return s;
  r.refuse("kind", "must be crossbar, full_mesh, torus2d, torus3d, cube_mesh, shared_memory or pcie");
}

template <class T>
std::vector<T> whole_list(FactReader& r, const std::string& key, const json& list, std::size_t size) {
  if (!list.is_array() || list.size() != size) r.refuse(key, "must list " + std::to_string(size) + " whole numbers");
  std::vector<T> out;
  for (const json& v : list) {
    if (!v.is_number_integer() || v.get<std::int64_t>() < 0) r.refuse(key, "must hold whole numbers");
    out.push_back(static_cast<T>(v.get<std::int64_t>()));
  }
  return out;
}

void read_torus(FactReader& r, NodeFacts& n, bool three) {
  const auto shape = whole_list<std::int64_t>(r, "shape", r.fact("shape"), three ? 3 : 2);
  std::copy(shape.begin(), shape.end(), n.shape.begin());
  if (three) n.z_link = r.bandwidth("z_link_bytes_per_s");
  if (n.cores_per_chip > 1 || r.has("core_port_bytes_per_s")) n.core_port = r.bandwidth("core_port_bytes_per_s");
  const bool countable = std::max({n.shape[0], n.shape[1], n.shape[2], n.cores_per_chip}) <= n.devices && n.devices > 0;
  const std::int64_t chips = countable ? n.shape[0] * n.shape[1] * n.shape[2] : 0;
  if (countable && chips * n.cores_per_chip == n.devices) return;
  const bool divides = chips > 0 && n.devices % chips == 0;
  r.refuse("shape", std::string(three ? "x by y by z" : "x by y") + " chips with their cores must be all devices of the node",
           divides ? "write \"cores_per_chip\": " + std::to_string(n.devices / chips) + ", or another shape" : "");
}

/// Whether the matrix is symmetric and no device has a link to itself.
bool symmetric(const LinkMatrix& links) {
  for (std::size_t a = 0; a < links.size(); ++a)
    for (std::size_t b = 0; b <= a; ++b)
      if (links[a][b] != links[b][a] || (a == b && links[a][b] != 0)) return false;
  return true;
}

bool names_each_once(std::vector<std::int32_t> ring) {
  std::sort(ring.begin(), ring.end());
  for (std::size_t i = 0; i < ring.size(); ++i)
    if (ring[i] != static_cast<std::int32_t>(i)) return false;
  return true;
}

void read_cube(FactReader& r, NodeFacts& n) {
  const auto size = static_cast<std::size_t>(n.devices);
  const json& rows = r.fact("link_matrix");
  if (!rows.is_array() || rows.size() != size) r.refuse("link_matrix", "needs a row for every device");
  for (const json& row : rows) n.matrix.push_back(whole_list<int>(r, "link_matrix", row, size));
  if (!symmetric(n.matrix)) r.refuse("link_matrix", "is not symmetric: a link goes both ways, and none to its own device");
  if (!joined(n.matrix)) r.refuse("link_matrix", "leaves devices without a way to each other", "give every device a link at least");
  n.ring = whole_list<std::int32_t>(r, "ring", r.fact("ring"), size);
  if (!names_each_once(n.ring)) r.refuse("ring", "must name every device of the node once", "number them from 0");
}

double reached_share(FactReader& r) {
  const double share = r.number("reached_share", 0);
  if (share <= 0 || share > 1) r.refuse("reached_share", "must be above 0 and at most 1");
  return share;
}

/// Devices that are one chip. Absent: each is its own.
std::int64_t chip_cores(FactReader& r, const NodeFacts& n) {
  if (!r.has("cores_per_chip")) return 1;
  const std::int64_t cores = r.whole("cores_per_chip", 1);
  if (n.kind != ScaleUp::torus && n.devices % cores != 0)
    r.refuse("cores_per_chip", "does not divide the " + std::to_string(n.devices) + " devices of the node", "use a divisor of them");
  return cores;
}

void read_scale_up(FactReader r, NodeFacts& n, bool three) {
  n.link = r.bandwidth(n.kind == ScaleUp::full_mesh                                ? "pair_bytes_per_s"
                       : n.kind == ScaleUp::torus || n.kind == ScaleUp::cube_mesh ? "link_bytes_per_s"
                                                                                    : "device_bytes_per_s");
  n.hop = r.duration("hop_latency_s");
  if (r.has("reached_share")) n.link_share = reached_share(r);
  n.cores_per_chip = chip_cores(r, n);
  if (n.kind == ScaleUp::torus) read_torus(r, n, three);
  if (n.kind == ScaleUp::crossbar && n.cores_per_chip > 1 && r.has("core_port_bytes_per_s")) n.core_port = r.bandwidth("core_port_bytes_per_s");
  if (n.kind == ScaleUp::cube_mesh) read_cube(r, n);
  r.finish();
}

NcclSettings read_nccl(FactReader r) {
  NcclSettings s;
  if (r.has("protocol")) {
    if (r.fact("protocol") != "simple") r.refuse("protocol", "must be simple", "leave it out where NCCL may choose");
    s.only_simple = true;
  }
  if (r.has("reported_latency_s")) s.reported_latency = r.duration("reported_latency_s");
  if (r.has("buffer_bytes")) s.buffer = r.bytes("buffer_bytes");
  if (r.has("nvls_chunk_bytes")) s.nvls_chunk = r.bytes("nvls_chunk_bytes");
  r.finish();
  return s;
}

constexpr std::int64_t kMostOfNode = 65'536, kMostOfMesh = 256, kMostOfTorus = 1024;  // a mesh has a link, a torus a route a pair

/// Reads a number of devices or NICs of a node; refuses more than `most`.
std::int64_t of_node(FactReader& r, const std::string& key, std::int64_t most = kMostOfNode) {
  const std::int64_t n = r.whole(key, 1);
  if (n > most) r.refuse(key, "is more than a node can have", "use at most " + std::to_string(most));
  return n;
}

void read_scale_out(FactReader r, NodeFacts& n) {
  n.nics = of_node(r, "nics");
  n.nic = r.bandwidth("nic_bytes_per_s");
  n.nic_latency = r.duration("latency_s");
  n.rails = r.flag("rails", false);
  if (r.has("nccl")) n.nccl = read_nccl(r.object("nccl"));
  if (r.has("host_link_bytes_per_s")) n.host_link = r.bandwidth("host_link_bytes_per_s");
  r.finish();
}

HostProcessor read_processor(FactReader& r) {
  const json& maker = r.fact("host_processor");
  if (maker == "intel") return HostProcessor::intel;
  if (maker == "amd") return HostProcessor::amd;
  if (maker == "other") return HostProcessor::other;
  r.refuse("host_processor", "must be intel, amd or other");
}

std::int64_t host_devices(FactReader& r, const NodeFacts& n) {
  const std::int64_t devices = r.whole("devices_per_host", 1);
  if (n.devices % devices != 0)
    r.refuse("devices_per_host", "does not divide the " + std::to_string(n.devices) + " devices of the node", "use a divisor of them");
  return devices;
}

void read_node(FactReader& r, ClusterFacts& facts) {
  NodeFacts& n = facts.node;
  const std::string name = r.text("name", "");
  r.text("notes", "");
  n.kind = read_kind(r);
  const bool paired = n.kind == ScaleUp::full_mesh, routed = n.kind == ScaleUp::torus;
  const std::int64_t most = paired ? kMostOfMesh : routed ? kMostOfTorus : kMostOfNode;
  n.devices = n.kind == ScaleUp::shared_memory && !r.has("devices") ? 0 : of_node(r, "devices", most);
  if (r.has("devices_across_nodes")) n.devices_across = r.whole("devices_across_nodes", 1);
  if (r.has("devices_per_host")) n.devices_per_host = host_devices(r, n);
  if (r.has("host_processor")) n.host_processor = read_processor(r);
  read_scale_up(r.object("scale_up"), n, r.text("kind", "") == kTorus3d);
  if (r.has("scale_out")) read_scale_out(r.object("scale_out"), n);
  if (n.kind == ScaleUp::pcie && n.host_link.bytes_per_second() == 0) n.host_link = n.link;  // the card's only link
}

// ---- cluster ----

void read_fabric(FactReader r, FabricFacts& f) {
  f.nodes_per_leaf = r.whole("nodes_per_leaf", 1);
  f.oversubscription = r.number("oversubscription", 1);
  f.switch_latency = r.duration("switch_latency_s");
  f.reduces = r.flag("reduces", false);
  if (r.has("reached_share")) f.share = reached_share(r);
  if (r.has("max_nodes")) f.max_nodes = r.whole("max_nodes", 1);
  r.finish();
}

Bytes host_memory(FactReader& r) {
  const Bytes out = r.bytes("host_memory_bytes");
  if (out < kLeastMemory) r.refuse("host_memory_bytes", "is less than a megabyte", "write for example \"2 TiB\"");
  return out;
}

void read_cluster(FactReader& r, ClusterFacts& facts) {
  r.text("name", "");
  r.text("notes", "");
  read_part(r, "node", kNodes, facts.unverified, [&](FactReader& part) { read_node(part, facts); });
  const std::string device = r.has("device") && r.raw("device").is_string() ? r.text("device", "") : "";
  read_part(r, "device", kDevices, facts.unverified, [&](FactReader& part) { read_device(part, facts.device, device); });
  if (r.has("fabric")) read_fabric(r.object("fabric"), facts.fabric);
  if (r.has("host_memory_bytes")) facts.host_memory = host_memory(r);
  if (facts.node.nics == 0) facts.fabric.max_nodes = 1;
  facts.device.calibration = calibration(r, facts.device.calibration);
  facts.device.cost_table = name_or_path(r, "cost_table", facts.device.cost_table);
}

}  // namespace

std::optional<Device> find_device_preset(const std::string& name) {
  const std::string path = find_preset(kDevices, name);
  if (path.empty()) return std::nullopt;
  const json file = read_json(path);
  std::vector<std::string> unverified;
  FactReader reader(file, path, "", unverified);
  Device device;
  read_device(reader, device, name);
  return device;
}

std::optional<Host> find_host(const std::string& preset) {
  const ClusterFacts facts = load_cluster(preset);
  if (facts.host_memory == Bytes{}) return std::nullopt;
  return Host{facts.host_memory, facts.node.devices_per_host > 0 ? facts.node.devices_per_host : facts.node.devices};
}

std::string cluster_file(const std::string& preset) {
  if (is_preset_path(preset)) return readable_cluster(preset);
  std::string path = find_preset(kClusters, preset);
  if (!path.empty()) return path;
  Problem p = unknown_preset(kClusters, preset, "cluster preset");
  p.field = "cluster.preset";
  if (p.remedy.starts_with("there are ")) p.remedy += "; or describe your own: topology/presets/README.md, \"Your own cluster\"";
  throw ConfigError(p);
}

ClusterFacts load_cluster(const std::string& preset) {
  const std::string path = cluster_file(preset);
  const json file = read_json(path);
  ClusterFacts facts;
  FactReader reader(file, path, "", facts.unverified);
  read_cluster(reader, facts);
  reader.finish();
  return facts;
}

}  // namespace tandem
