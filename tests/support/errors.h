// The error that a call ends with.
#pragma once

#include "amdahl/error.h"

namespace amdahl {

/// What `call` throws; an Error{internal} of its own when it throws none.
template <class Call>
Error error_of(const Call& call) {
  try {
    call();
  } catch (const Error& error) {
    return error;
  }
  return Error(Cause::internal, "no error was thrown");
}

}  // namespace amdahl
