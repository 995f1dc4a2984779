// Captures the error that a call throws.
#pragma once

#include "amdahl/error.h"

namespace amdahl {

/// The Error that `call` throws; Error{internal} when it throws none.
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
