#pragma once
// Reads facts from preset files. A fact is {"value": ..., "source": [ids], "verified": bool, "note": text}, a fitted number
// is {"value": ..., "fitted_on": text}, which "placeholder": true makes unverified. A user's own file may have bare values,
// which count as unverified.

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "models/base/json.hpp"
#include "models/base/units.hpp"

namespace tandem {

/// A file for messages: its path below a folder "topology", such as "presets/devices/h100.json"; else the path as it is.
std::string told_file(const std::string& path);

/// Reads one object of a preset file. Every key must be read, and all numbers must be finite and not negative.
class FactReader {
 public:
  /// The references must outlive the reader. `unverified` collects facts that no source confirms, each once: "FILE: FIELD" or
  /// "FILE: FIELD (NOTE)", with told_file().
  FactReader(const nlohmann::json& object, std::string file, std::string path, std::vector<std::string>& unverified);

  bool has(const std::string& key);
  FactReader object(const std::string& key);
  const nlohmann::json& raw(const std::string& key);          ///< the value as it is
  const nlohmann::json& fact(const std::string& key);         ///< the fact's value
  std::string text(const std::string& key, const std::string& otherwise);
  bool flag(const std::string& key, bool otherwise);

  double number(const std::string& key, double least);        ///< at least `least`, finite
  std::int64_t whole(const std::string& key, std::int64_t least);
  Bytes bytes(const std::string& key);                        ///< number or "80 GiB"
  Bandwidth bandwidth(const std::string& key);                ///< number or "25 GB/s"; at least 1 MB/s
  FlopRate rate(const std::string& key);                      ///< number or "312 TFLOP/s"; at least 1 GFLOP/s
  FlopRate rate(const std::string& key, const nlohmann::json& value, const std::string& of);  ///< messages begin with `of`
  Duration duration(const std::string& key);                  ///< number or "2 us"; at most a second
  /// Throws ConfigError if the object has a key that was not read; names the nearest key that was.
  void finish() const;
  [[noreturn]] void refuse(const std::string& key, const std::string& reason, const std::string& remedy = "") const;

  const std::string& file() const { return file_; }

 private:
  std::string place(const std::string& key) const;
  void note_unverified(const std::string& key, const nlohmann::json& fact);

  const nlohmann::json& json_;
  std::string file_, path_;
  std::vector<std::string>& unverified_;
  std::set<std::string> asked_;
};

}  // namespace tandem
