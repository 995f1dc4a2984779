# Precompiled headers: what most files include is parsed once per kind of target instead of once per file.
option(AMDAHL_PCH "Precompile the headers that most files include" ON)

set(AMDAHL_COMMON_HEADERS <algorithm> <array> <chrono> <cmath> <cstdint> <functional> <map> <memory> <optional> <string>
                          <string_view> <utility> <vector> <fmt/format.h>)

# amdahl_pch_library(NAME LINK ... INCLUDE ... HEADERS ...): precompiled headers that libraries can share.
function(amdahl_pch_library name)
  cmake_parse_arguments(ARG "" "" "INCLUDE;HEADERS" ${ARGN})
  if(NOT AMDAHL_PCH)
    return()
  endif()
  file(WRITE ${CMAKE_CURRENT_BINARY_DIR}/pch_${name}.cpp "")
  add_library(amdahl_pch_${name} OBJECT ${CMAKE_CURRENT_BINARY_DIR}/pch_${name}.cpp)
  target_include_directories(amdahl_pch_${name} SYSTEM PRIVATE ${ARG_INCLUDE})
  target_link_libraries(amdahl_pch_${name} PRIVATE amdahl_flags fmt::fmt)
  amdahl_precompile(amdahl_pch_${name} ${ARG_HEADERS})
endfunction()

# amdahl_precompile(TARGET headers...): the common headers and these, for this target alone.
function(amdahl_precompile target)
  if(AMDAHL_PCH)
    list(TRANSFORM AMDAHL_COMMON_HEADERS REPLACE "(.+)" "$<$<COMPILE_LANGUAGE:CXX>:\\1>" OUTPUT_VARIABLE common)
    list(TRANSFORM ARGN REPLACE "(.+)" "$<$<COMPILE_LANGUAGE:CXX>:\\1>" OUTPUT_VARIABLE own)
    target_precompile_headers(${target} PRIVATE ${common} ${own})
    amdahl_pch_for_ccache(${target})
  endif()
endfunction()

# amdahl_reuse_pch(TARGET NAME): those of amdahl_pch_library(NAME).
function(amdahl_reuse_pch target name)
  if(AMDAHL_PCH)
    target_precompile_headers(${target} REUSE_FROM amdahl_pch_${name})
    amdahl_pch_for_ccache(${target})
  endif()
endfunction()

# ccache then sees the precompiled header's digest instead of its text (with CCACHE_SLOPPINESS=pch_defines,time_macros).
function(amdahl_pch_for_ccache target)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-fpch-preprocess>)
  endif()
endfunction()
