#include "exec/checkpoint/rank_files.hpp"

#include <map>

#include "exec/checkpoint/folder.hpp"
#include "exec/checkpoint/safetensors.hpp"
#include "models/base/error.hpp"
#include "models/base/new_file.hpp"

namespace tandem::exec {
namespace {

constexpr std::size_t kWaitingBytes = std::size_t{128} << 20;

std::size_t bytes_of(const PlannedPart& part) {
  return static_cast<std::size_t>(part.place.block.elements()) * stored_bytes(part.type);
}

/// Splits a rank's blocks into parts of at most kPartBytes bytes, or of a single row.
void add_parts(const RankState& rank, const std::string& buffer, const std::map<std::string, std::uint32_t>& numbers,
               const std::vector<SavedTensor>& tensors, std::vector<PlannedPart>& out) {
  for (const HeldBlock& held : counted_blocks(rank, buffer)) {
    const std::uint32_t number = numbers.at(held.param->name);
    const DType type = tensors[number].type;
    const BlockPlace place = place_of(rank, held, state_offset(rank, buffer), type);
    for (const Block& block : parts_of(held.block, part_elements(type))) out.push_back({number, rows_of(place, block), type, 0});
  }
}

/// The header of a rank's file. Sets the byte offset of each part.
std::string header_of(const std::vector<SavedTensor>& tensors, std::vector<PlannedPart>& parts) {
  SafetensorsHeader header;
  header.set("format", "tandem checkpoint part");
  for (PlannedPart& part : parts) {
    const SavedTensor& t = tensors[part.tensor];
    const Block& b = part.place.block;
    part.at = header.add(part_name(t, b), safetensors_name(t.type), shape_text(b.rows, t.cols == 1 ? 1 : b.cols), bytes_of(part));
  }
  std::string text = header.text();
  for (PlannedPart& part : parts) part.at += text.size();
  return text;
}

}  // namespace

std::vector<PlannedFile> planned_files(std::span<const RankState> world, const std::vector<SavedTensor>& tensors) {
  std::map<std::string, std::map<std::string, std::uint32_t>> numbers;
  for (std::size_t i = 0; i < tensors.size(); ++i) numbers[tensors[i].buffer][tensors[i].name] = static_cast<std::uint32_t>(i);
  std::vector<PlannedFile> files;
  for (std::size_t r = 0; r < world.size(); ++r) {
    if (world[r].arena == nullptr) continue;
    PlannedFile file{Rank(static_cast<std::int32_t>(r)), "", {}};
    for (const auto& [buffer, of_buffer] : numbers) add_parts(world[r], buffer, of_buffer, tensors, file.parts);
    if (file.parts.empty()) continue;
    file.header = header_of(tensors, file.parts);
    files.push_back(std::move(file));
  }
  return files;
}

RankFiles::RankFiles(std::string folder, std::vector<PlannedFile> files)
    : folder_(std::move(folder)), files_(std::move(files)), queue_(kWaitingBytes) {
  thread_.start([this] { write(); });
}

RankFiles::~RankFiles() {
  queue_.close();
  queue_.end();
}

void RankFiles::feed() try {
  for (const PlannedFile& file : files_)
    for (const PlannedPart& part : file.parts) {
      const std::vector<std::byte> values = values_at(part.place, part.type);
      std::string bytes(reinterpret_cast<const char*>(values.data()), values.size());
      if (!queue_.push(std::move(bytes))) return;
    }
  queue_.close();
} catch (...) {
  queue_.close();  // the writer notices the missing parts
  throw;
}

void RankFiles::write() {
  try {
    for (const PlannedFile& file : files_) write(file);
    synchronise_folder(folder_);
  } catch (...) {
    error_ = std::current_exception();
  }
  queue_.end();
}

void RankFiles::write(const PlannedFile& file) {
  NewFile out(folder_ + "/" + rank_file(file.rank), folder_ + "/" + rank_file(file.rank));
  out.add(file.header);
  std::string bytes;
  for (const PlannedPart& part : file.parts) {
    if (!queue_.pop(bytes)) throw std::bad_alloc();  // the reader gave up
    written_.push_back({part.tensor, crc32_of(bytes), file.rank.value(), part.at, part.place.block});
    out.add(bytes);
  }
  out.close();
}

std::vector<WrittenPart> RankFiles::finish() {
  thread_.wait();
  if (error_) std::rethrow_exception(error_);
  return std::move(written_);
}

}  // namespace tandem::exec
