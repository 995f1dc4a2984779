# Writes a header with the commit of a build, with "-dirty" appended if tracked files differ, or "unknown" without git;
# an unchanged header is not rewritten. It runs at every build, because a commit changes no file that the configure step
# could depend on. Usage: cmake -DGIT=... -DSOURCE=folder -DTEMPLATE=file.h.in -DOUTPUT=file.h -P ...
set(commit unknown)
if(GIT)
  execute_process(COMMAND ${GIT} -C ${SOURCE} describe --always --dirty --abbrev=12 --exclude=*
                  OUTPUT_VARIABLE described OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE failed)
  if(NOT failed)
    set(commit ${described})
  endif()
endif()
configure_file(${TEMPLATE} ${OUTPUT} @ONLY)
