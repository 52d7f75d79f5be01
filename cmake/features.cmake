# Optional parts: what was asked for, what was found, and one summary at the end of the configuration.
include(FeatureSummary)

find_program(TANDEM_CCACHE ccache)
mark_as_advanced(TANDEM_CCACHE)
if(TANDEM_CCACHE AND PROJECT_IS_TOP_LEVEL AND NOT DEFINED CMAKE_CXX_COMPILER_LAUNCHER)
  # Names relative to the sources, so that another clone of the project finds what this one compiled. The compiler's own list of
  # headers tells what an object depends on (CCACHE_DEPEND): without it a miss costs a run of the preprocessor first. Precompiled
  # headers need the sloppiness: ccache then looks at the header's contents and not at macros defined or time stamps read in it.
  set(cache ${CMAKE_COMMAND} -E env CCACHE_BASEDIR=${PROJECT_SOURCE_DIR} CCACHE_NOHASHDIR=1)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${cache} CCACHE_DEPEND=1 CCACHE_SLOPPINESS=pch_defines,time_macros ${TANDEM_CCACHE})
  set(CMAKE_CUDA_COMPILER_LAUNCHER ${cache} ${TANDEM_CCACHE})
endif()

add_feature_info("CPU backend" ON "Eigen, -march=${TANDEM_CPU_ARCH}")
add_feature_info("CUDA" TANDEM_CUDA_FOUND "${TANDEM_CUDA_SUMMARY}")
add_feature_info("Processes by MPI" TANDEM_MPI_FOUND "TANDEM_MPI=${TANDEM_MPI}, train --launch mpi")
add_feature_info("Processes by Gloo" TANDEM_GLOO_FOUND "TANDEM_GLOO=${TANDEM_GLOO}, train --launch env")
add_feature_info("Tokenizers by ICU" TANDEM_ICU_FOUND "TANDEM_ICU=${TANDEM_ICU}")
add_feature_info("Tokenizers by sentencepiece" TANDEM_SENTENCEPIECE_FOUND "TANDEM_SENTENCEPIECE=${TANDEM_SENTENCEPIECE}")
add_feature_info("Tests" TANDEM_TESTS "TANDEM_TESTS")
add_feature_info("Install rules" TANDEM_INSTALL "TANDEM_INSTALL")

function(tandem_feature_summary)
  if(NOT PROJECT_IS_TOP_LEVEL)
    return()
  endif()
  message(STATUS "tandem ${PROJECT_VERSION}: ${CMAKE_BUILD_TYPE}, ${CMAKE_CXX_COMPILER_ID} ${CMAKE_CXX_COMPILER_VERSION}")
  feature_summary(WHAT ENABLED_FEATURES DISABLED_FEATURES QUIET_ON_EMPTY)
endfunction()
