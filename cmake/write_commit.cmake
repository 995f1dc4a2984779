# Writes a header with the commit that a build is made from, "-dirty" behind it where tracked files differ, "unknown"
# without git; the header stays as it is while that stays the same. Run at every build: a commit changes no file that
# configuring could depend on. Usage: cmake -DGIT=... -DSOURCE=folder -DTEMPLATE=file.h.in -DOUTPUT=file.h -P ...
set(commit unknown)
if(GIT)
  execute_process(COMMAND ${GIT} -C ${SOURCE} describe --always --dirty --abbrev=12 --exclude=*
                  OUTPUT_VARIABLE described OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE failed)
  if(NOT failed)
    set(commit ${described})
  endif()
endif()
configure_file(${TEMPLATE} ${OUTPUT} @ONLY)
