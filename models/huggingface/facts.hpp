#pragma once
// The facts of one configuration: values of its type's table expressions, and the fields they came from.

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "models/huggingface/expression.hpp"

namespace tandem::huggingface {

/// A field that a value was computed from.
struct FieldValue {
  std::string field;      ///< dotted, as in the file
  std::string text;       ///< its value
  bool by_default = false;///< missing in the file: default of transformers' class
  bool operator<(const FieldValue& other) const { return field < other.field; }
};
using FieldValues = std::set<FieldValue>;

/// A value with the fields that it was computed from.
struct Traced {
  std::shared_ptr<const nlohmann::json> held;
  FieldValues from;
  const nlohmann::json& value() const { return *held; }
};

class Facts : public Names {
 public:
  /// `config` is the whole document. `inner` names the object in it that describes the language
  /// model ("text_config"); empty if the document itself does. `sequence`: tokens for the FLOPs; 0
  /// means the smaller of 4,096 and the model's longest. `config` and `table` must outlive this.
  Facts(const nlohmann::json& config, const std::string& inner, const nlohmann::json& table, std::string file,
        std::int64_t sequence);

  nlohmann::json field(const std::string& path) override;
  nlohmann::json fact(const std::string& name) override;
  nlohmann::json call(const std::string& name, const std::vector<nlohmann::json>& arguments) override;

  /// An expression's value. Throws ConfigError that names the file and the fields that it read.
  Traced value(const std::string& expression);
  std::int64_t whole(const std::string& expression);
  double number(const std::string& expression);
  bool truth(const std::string& expression);
  bool has(const std::string& name) const;

  std::int64_t sequence();
  /// Fields of the document that no expression has read so far, dotted.
  std::vector<std::string> unread() const;

 private:
  /// A field as the file has it; discarded where it has none.
  nlohmann::json in_file(const std::string& path);
  /// `$outer.NAME` and `$inner.NAME`: a field of the document alone or of its language model alone, else the default of its class.
  nlohmann::json at_place(const std::string& path, bool outer);
  nlohmann::json remember(const std::string& path, const nlohmann::json& value);
  /// A list of layers with the names of their kinds that are current: transformers renamed some of them.
  nlohmann::json current_names(const std::string& path, nlohmann::json value) const;
  nlohmann::json default_of(const std::string& path) const;
  void note(const std::string& path, const nlohmann::json& value, bool by_default);
  /// Facts about the layers that hold experts, as one object (expert_layers.hpp).
  const nlohmann::json& experts();

  const nlohmann::json& config_;
  const nlohmann::json& inner_;
  const nlohmann::json& table_;
  std::string file_, inner_name_;
  std::int64_t sequence_;
  std::map<std::string, Traced> known_;
  std::set<std::string> open_, read_;
  std::vector<FieldValues> trace_;
  std::string missing_;  ///< the last field that was read and has no value
};

}  // namespace tandem::huggingface
