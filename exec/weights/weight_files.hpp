#pragma once
// The safetensors files of a model: one file, or several with an index, as Hugging Face writes them.

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "models/base/dtype.hpp"
#include "models/base/input.hpp"

namespace tandem::exec {

/// A tensor in one of the files.
struct StoredTensor {
  std::size_t file = 0;                 ///< index in WeightFiles::paths()
  std::string type_name;                ///< "BF16"
  std::optional<DType> type;            ///< nothing: a type that no weights are read from
  std::vector<std::int64_t> shape;
  std::uint64_t at = 0;                 ///< byte offset in the file
  std::uint64_t bytes = 0;

  std::int64_t elements() const;
};

/// "[4096, 1024]"
std::string shape_text(const std::vector<std::int64_t>& shape);

class WeightFiles {
 public:
  /// `path`: a folder with model.safetensors or model.safetensors.index.json, such an index, or a .safetensors file. Reads the heads
  /// only. Throws ConfigError if a file is missing, cut short or damaged.
  explicit WeightFiles(const std::string& path);

  const std::map<std::string, StoredTensor>& tensors() const { return tensors_; }
  const std::string& path_of(const StoredTensor& tensor) const { return paths_[tensor.file]; }
  /// The index, or the only file.
  const std::string& path() const { return path_; }
  /// The folder of the files.
  std::string folder() const;
  /// Bytes of the tensor from its byte `from` on. Thread-safe. Throws ConfigError if the file has become shorter.
  void read(const StoredTensor& tensor, std::uint64_t from, std::span<std::byte> to) const;
  /// Bytes of all tensors.
  std::uint64_t bytes() const;

 private:
  void add_file(const std::string& path);
  void add_indexed(const std::string& index);

  std::string path_;
  std::vector<std::string> paths_;
  std::vector<std::unique_ptr<InputFile>> files_;
  std::map<std::string, StoredTensor> tensors_;
};

}  // namespace tandem::exec
