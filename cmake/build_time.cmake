# Build time of code whose own speed nobody waits for: commands, reports, file formats, tests. It is compiled with light
# optimisation, several sources as one, so that headers and templates are compiled once for all of them: names in
# anonymous namespaces must differ within such a target. AMDAHL_UNITY=OFF compiles each source by itself, which is
# faster where few have changed.
option(AMDAHL_UNITY "Compile several sources of commands, reports and tests as one" ON)

function(cold_target target)
  target_compile_options(${target} PRIVATE $<$<AND:$<COMPILE_LANGUAGE:CXX>,$<CONFIG:Release>>:-O1>)
  set_target_properties(${target} PROPERTIES UNITY_BUILD ${AMDAHL_UNITY} UNITY_BUILD_BATCH_SIZE 10)
endfunction()
