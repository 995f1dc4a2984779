// clang's libFuzzer on the target that AMDAHL_FUZZ_TARGET names: built instead of fuzz_main.cpp with AMDAHL_FUZZ=ON.
#include <cstdint>
#include <cstdio>
#include <cstdlib>

#include "amdahl/error.h"
#include "targets.h"

extern "C" int LLVMFuzzerInitialize(int* argc, char*** argv);
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace {

const amdahl::fuzz::Target* g_target = nullptr;

}  // namespace

int LLVMFuzzerInitialize(int*, char***) {
  const char* name = std::getenv("AMDAHL_FUZZ_TARGET");
  g_target = amdahl::fuzz::find_target(name == nullptr ? "" : name);
  if (g_target != nullptr) return 0;
  std::fprintf(stderr, "AMDAHL_FUZZ_TARGET names no target; one of:\n");
  for (const amdahl::fuzz::Target& target : amdahl::fuzz::targets())
    std::fprintf(stderr, "  %.*s\n", static_cast<int>(target.name.size()), target.name.data());
  std::exit(2);
}

// What else is thrown ends the process, which libFuzzer reports with the input.
int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    g_target->parse({reinterpret_cast<const char*>(data), size});
  } catch (const amdahl::Error& error) {
    if (error.cause() == amdahl::Cause::internal) throw;
  }
  return 0;
}
