# Reduces the build time of code whose run time does not matter: commands, reports, file formats, tests. It is compiled
# with light optimisation in unity builds, so that headers and templates are compiled once for several sources: names in
# anonymous namespaces must be unique within such a target, or within its folder if it has folders. Code with loops that are
# timed is compiled in unity builds too where no hot kernels are in it (unity_target), with full optimisation.
# AMDAHL_UNITY=OFF compiles each source separately, which is faster when few have changed.
option(AMDAHL_UNITY "Compile several sources of commands, reports and tests as one" ON)

function(unity_target target)
  set_target_properties(${target} PROPERTIES UNITY_BUILD ${AMDAHL_UNITY} UNITY_BUILD_BATCH_SIZE 10)
  get_target_property(sources ${target} SOURCES)
  foreach(source IN LISTS sources)
    if(source MATCHES "^([a-z]+)/[a-z_]+[.]cpp$")
      set_target_properties(${target} PROPERTIES UNITY_BUILD_MODE GROUP)
      set_source_files_properties(${source} PROPERTIES UNITY_GROUP ${CMAKE_MATCH_1})
    endif()
  endforeach()
endfunction()

function(cold_target target)
  target_compile_options(${target} PRIVATE $<$<AND:$<COMPILE_LANGUAGE:CXX>,$<CONFIG:Release>>:-O1>)
  unity_target(${target})
endfunction()
