# Installation: bin/amdahl, libamdahl, headers, find_package(amdahl) with amdahl::amdahl, the JSON schemas, the price
# table for users to edit, completion scripts of bash, zsh and fish, and manual pages.
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
install(FILES data/prices.toml data/gpu-a100-40gb.toml DESTINATION ${CMAKE_INSTALL_DATADIR}/amdahl)
