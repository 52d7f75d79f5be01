# Headers that nearly every file of a target reads, compiled once: g++ 12 needs 1 s less for a test. The libraries have none.
option(TANDEM_PRECOMPILED_HEADERS "Compile the tests' common headers once" ON)

# tandem_precompile(TARGET PRIVATE HEADERS... | REUSE_FROM TARGET)
function(tandem_precompile target)
  if(TANDEM_PRECOMPILED_HEADERS)
    target_precompile_headers(${target} ${ARGN})
  endif()
endfunction()
