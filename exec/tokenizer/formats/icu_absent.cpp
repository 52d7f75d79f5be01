// Compiled instead of the tokenizers if ICU was not found.
#include "exec/tokenizer/formats/read_tokenizer.hpp"
#include "models/base/error.hpp"

namespace tandem::exec {

std::unique_ptr<Tokenizer> read_tokenizer(const std::string& path) {
  throw InfeasibleError(Problem{path, "--tokenizer", "", "this program was built without ICU, which tokenizers need",
                                "install ICU (Debian: libicu-dev) and build again"});
}

}  // namespace tandem::exec
