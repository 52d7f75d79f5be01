# The installed package: find_package(tandem) gives tandem::models, tandem::topology, tandem::reports, tandem::sim, tandem::exec.
# tests/install builds and runs a consumer of it.
include(CMakePackageConfigHelpers)
set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/tandem)

get_property(libraries GLOBAL PROPERTY TANDEM_LIBRARIES)
foreach(library IN LISTS libraries)
  install(TARGETS tandem_${library} EXPORT tandemTargets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
  install(DIRECTORY ${PROJECT_SOURCE_DIR}/${library} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/tandem
          FILES_MATCHING PATTERN "*.hpp")
endforeach()
# Data files that libraries find by name at run time (models/base/presets.hpp); models installs its own.
install(DIRECTORY ${PROJECT_SOURCE_DIR}/topology DESTINATION ${CMAKE_INSTALL_DATADIR}/tandem
        FILES_MATCHING PATTERN "*.json")
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE ${PROJECT_SOURCE_DIR}/README.md ${PROJECT_SOURCE_DIR}/CHANGELOG.md
        DESTINATION ${CMAKE_INSTALL_DOCDIR})

install(EXPORT tandemTargets NAMESPACE tandem:: DESTINATION ${package_dir})
configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/tandemConfig.cmake.in
                              ${CMAKE_CURRENT_BINARY_DIR}/tandemConfig.cmake INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(${CMAKE_CURRENT_BINARY_DIR}/tandemConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/tandemConfig.cmake ${CMAKE_CURRENT_BINARY_DIR}/tandemConfigVersion.cmake
        DESTINATION ${package_dir})
