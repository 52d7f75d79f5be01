# One target per folder: `tandem_library(models SOURCES ... PUBLIC ... PRIVATE ...)` makes tandem_models and its alias
# tandem::models. The link arrows are the include arrows (tests/style checks the latter).
function(tandem_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;PUBLIC;PRIVATE" ${ARGN})
  add_library(tandem_${name} STATIC ${ARG_SOURCES})
  add_library(tandem::${name} ALIAS tandem_${name})
  set_target_properties(tandem_${name} PROPERTIES EXPORT_NAME ${name} POSITION_INDEPENDENT_CODE ON)
  target_include_directories(tandem_${name} PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}>
                                                   $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}/tandem>)
  target_compile_features(tandem_${name} PUBLIC cxx_std_20)
  target_link_libraries(tandem_${name} PUBLIC ${ARG_PUBLIC} PRIVATE ${ARG_PRIVATE})
  set_property(GLOBAL APPEND PROPERTY TANDEM_LIBRARIES ${name})
endfunction()
