# Build time of code whose own speed nobody waits for: commands, reports, file formats, tests. It is compiled with light
# optimisation, several sources as one, so that headers and templates are compiled once for all of them: names in
# anonymous namespaces must differ within such a target, or within its folder where it has folders. AMDAHL_UNITY=OFF
# compiles each source by itself, which is faster where few have changed.
option(AMDAHL_UNITY "Compile several sources of commands, reports and tests as one" ON)

function(cold_target target)
  target_compile_options(${target} PRIVATE $<$<AND:$<COMPILE_LANGUAGE:CXX>,$<CONFIG:Release>>:-O1>)
  set_target_properties(${target} PROPERTIES UNITY_BUILD ${AMDAHL_UNITY} UNITY_BUILD_BATCH_SIZE 10)
  get_target_property(sources ${target} SOURCES)
  foreach(source IN LISTS sources)
    if(source MATCHES "^([a-z]+)/[a-z_]+[.]cpp$")
      set_target_properties(${target} PROPERTIES UNITY_BUILD_MODE GROUP)
      set_source_files_properties(${source} PROPERTIES UNITY_GROUP ${CMAKE_MATCH_1})
    endif()
  endforeach()
endfunction()
