// Compiled instead of sentences.cpp if sentencepiece was not found.
#include "exec/tokenizer/formats/sentences.hpp"
#include "models/base/error.hpp"

namespace tandem::exec {

std::unique_ptr<Tokenizer> read_sentences(const TokenizerFiles& files) {
  throw InfeasibleError(Problem{files.file, "--tokenizer", "", "this program was built without sentencepiece, which this model needs",
                                "install it (Debian: libsentencepiece-dev) and build again, or write tokenizer.json with transformers"});
}

}  // namespace tandem::exec
