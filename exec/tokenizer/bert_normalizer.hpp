#pragma once
// BERT's normalizer, and what it shares with others.

#include <memory>
#include <string>

#include "exec/tokenizer/unicode/character_set.hpp"
#include "exec/tokenizer/normalizer.hpp"

namespace tandem::exec {

/// Reads a BertNormalizer.
std::unique_ptr<Normalizer> read_bert_normalizer(const Place& place);

/// Removes the characters of a set.
void remove_characters(std::string& text, const CharacterSet& set);

/// Replaces the characters of a set by spaces.
void make_spaces(std::string& text, const CharacterSet& set);

/// The lower case of each character alone, as the library has it: a final sigma is no exception.
std::string lower_case(const std::string& text);

}  // namespace tandem::exec
