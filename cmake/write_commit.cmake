# Writes a header with the commit that a build is made from, "-dirty" behind it where tracked files differ, "unknown"
# without git; the header stays as it is while that stays the same. Run at every build: a commit changes no file that
# configuring could depend on. Usage: cmake -DGIT=... -DSOURCE=folder -DOUTPUT=file.h -P write_commit.cmake
set(commit unknown)
if(GIT)
  execute_process(COMMAND ${GIT} -C ${SOURCE} describe --always --dirty --abbrev=12 --exclude=*
                  OUTPUT_VARIABLE described OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE failed)
  if(NOT failed)
    set(commit ${described})
  endif()
endif()
file(CONFIGURE OUTPUT ${OUTPUT} @ONLY CONTENT [[
// Generated at build time.
#pragma once

namespace amdahl {

inline constexpr const char* kCommit = "@commit@";

}  // namespace amdahl
]])
