# Installation: bin/amdahl, libamdahl, headers, find_package(amdahl) with amdahl::amdahl, the JSON schemas, the price
# table for users to edit, completion scripts of bash, zsh and fish, manual pages, and all of it as a Debian package.
include(CMakePackageConfigHelpers)
install(TARGETS amdahl amdahl_cli EXPORT amdahlTargets
        RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY include/amdahl DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(EXPORT amdahlTargets NAMESPACE amdahl:: DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/amdahl)
file(WRITE ${CMAKE_CURRENT_BINARY_DIR}/amdahlConfig.cmake
     "include(\${CMAKE_CURRENT_LIST_DIR}/amdahlTargets.cmake)\n")
write_basic_package_version_file(${CMAKE_CURRENT_BINARY_DIR}/amdahlConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/amdahlConfig.cmake ${CMAKE_CURRENT_BINARY_DIR}/amdahlConfigVersion.cmake
        DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/amdahl)
install(CODE "execute_process(COMMAND \"$<TARGET_FILE:amdahl_cli>\" --write-shell-files
                              \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_DATADIR}\" COMMAND_ERROR_IS_FATAL ANY)")
install(DIRECTORY docs/schema DESTINATION ${CMAKE_INSTALL_DATADIR}/amdahl)
install(DIRECTORY python/amdahl_lab DESTINATION ${CMAKE_INSTALL_DATADIR}/amdahl/python FILES_MATCHING PATTERN "*.py" PATTERN "py.typed")
install(FILES data/prices.toml data/gpu-a100-40gb.toml DESTINATION ${CMAKE_INSTALL_DATADIR}/amdahl)

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_PACKAGE_VENDOR amdahl)
set(CPACK_PACKAGE_CONTACT "The amdahl authors <amdahl@amdahl.invalid>")
set(CPACK_RESOURCE_FILE_LICENSE ${PROJECT_SOURCE_DIR}/LICENSE)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS $<TARGET_FILE_DIR:amdahl>)
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ON)
include(CPack)
