#pragma once
// Texts as documents.

#include <functional>
#include <string>
#include <string_view>

namespace tandem::exec {

class Place;

/// How files are cut into documents.
struct DocumentOptions {
  std::string key = "text";  ///< of a file with a JSON object a line: the field that holds the text
  std::string remedy = "name the field that holds the text: --key NAME";  ///< where the first line has no such field
  bool lines = false;        ///< of other files: a document a line, without its end; else the file is one document
};

/// Whether a file has a JSON object a line: a .jsonl file, and a plain .json file whose first line is a whole object.
bool has_object_lines(const std::string& path);

/// Calls `take` with each document of a file: one a line of a file with JSON objects, as Megatron-LM's preprocess_data.py reads it.
/// Only one document is in memory at a time. Throws ConfigError that names line or byte if a text is not UTF-8, or a line no JSON
/// object with a string under the key; also for a .json file of another form, unless `lines` asks for its lines as texts.
void each_document(const std::string& path, const DocumentOptions& options, const std::function<void(std::string_view)>& take);

/// Calls `take` with the object of each line of a file, in order, until it returns false. The place names file and line. Throws
/// ConfigError if a line is no JSON object.
void each_object(const std::string& path, const std::function<bool(const Place&)>& take);

}  // namespace tandem::exec
