# Headers that nearly every file of a target reads, compiled once: g++ 12 needs 0.4 s less for a file of a library, 1 s for a test.
# A file with code generation flags of its own cannot take them (SKIP_PRECOMPILE_HEADERS).
option(TANDEM_PRECOMPILED_HEADERS "Compile common headers once" ON)

# JSON and <filesystem> are not among them: most files of the libraries need neither, and reading them costs what they save.
set(TANDEM_STANDARD_HEADERS <algorithm> <array> <cmath> <cstdint> <functional> <map> <memory> <numeric> <optional> <set> <span> <sstream>
    <string> <string_view> <unordered_map> <utility> <variant> <vector>)

# tandem_precompile(TARGET PRIVATE HEADERS... | REUSE_FROM TARGET)
function(tandem_precompile target)
  if(TANDEM_PRECOMPILED_HEADERS)
    target_precompile_headers(${target} ${ARGN})
  endif()
endfunction()
