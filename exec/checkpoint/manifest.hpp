#pragma once
// The contents of a checkpoint folder, as stored in `manifest.json`.
//
// {"metadata": {steps, samples, plan, ...: texts}, "files": [names], "tensors": [{"buffer", "name", "dtype", "shape",
//  "parts": [[row, col, rows, cols, file, at, crc32], ...]}], "checksum": crc32 of all bytes before `,"checksum"`}
// A part is rows [row, row + rows) and columns [col, col + cols) of its tensor, stored row by row, `at`
// bytes into its file. Each file is a safetensors file, in which the part is named NAME[row:end,col:end].

#include <cstdint>
#include <string>
#include <vector>

#include "exec/checkpoint/checkpoint.hpp"

namespace tandem::exec {

inline constexpr const char* kManifestName = "manifest.json";

/// Where a part of a tensor is stored.
struct StoredPart {
  std::uint32_t file = 0;   ///< index in Manifest::files
  std::uint64_t at = 0;     ///< byte offset in the file
  std::uint32_t crc32 = 0;  ///< of its bytes (as zlib computes it)
};

struct Manifest {
  StateFacts facts;
  SavedRun run;
  std::vector<std::string> files;
  std::vector<SavedTensor> tensors;
  std::vector<std::vector<StoredPart>> stored;  ///< by tensor, then by part
};

std::string text_of(const Manifest& manifest);
/// Throws ConfigError, naming `path`, if the text is damaged or is not a manifest.
Manifest manifest_of(const std::string& text, const std::string& path);

std::uint32_t crc32_of(std::string_view bytes);
std::string part_name(const SavedTensor& t, const Block& part);

}  // namespace tandem::exec
