# Warning and sanitizer flags of every target of the project.
add_library(amdahl_flags INTERFACE)
target_compile_options(amdahl_flags INTERFACE
  $<$<COMPILE_LANGUAGE:CXX>:-Wall -Wextra -Wpedantic -Wshadow -Wnon-virtual-dtor -Woverloaded-virtual
    -Wno-restrict>  # false positives of g++ 12 in std::string
  $<$<COMPILE_LANGUAGE:CUDA>:-Wno-deprecated-gpu-targets>)
if(AMDAHL_WERROR)
  target_compile_options(amdahl_flags INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-Werror>)
endif()
if(AMDAHL_SANITIZE)
  target_compile_options(amdahl_flags INTERFACE
    $<$<COMPILE_LANGUAGE:CXX>:-fsanitize=${AMDAHL_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all>)
  # AddressSanitizer detects null accesses itself, and these two checks take a third of the compile time.
  if(AMDAHL_SANITIZE MATCHES "undefined")
    target_compile_options(amdahl_flags INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-fno-sanitize=null,vptr>)
  endif()
  target_link_options(amdahl_flags INTERFACE -fsanitize=${AMDAHL_SANITIZE})
endif()
if(AMDAHL_FUZZ)
  if(NOT CMAKE_CXX_COMPILER_ID MATCHES "Clang")
    message(FATAL_ERROR "AMDAHL_FUZZ needs clang: -DCMAKE_CXX_COMPILER=clang++")
  endif()
  target_compile_options(amdahl_flags INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-fsanitize=fuzzer-no-link>)
endif()
