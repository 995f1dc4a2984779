// The program: parse, run one command, turn an Error into one line and its exit code.
#include <cstdio>
#include <exception>
#include <new>

#include "cli/commands.h"

int main(int argc, char** argv) {
  using namespace amdahl;
  try {
    cli::watch_signals();
    return cli::parse_and_run(argc, argv);
  } catch (const Error& error) {
    std::fprintf(stderr, "%s\n", error.line().c_str());
    if (error.cause() == Cause::interrupted && cli::signal_exit_code() != 0) return cli::signal_exit_code();
    return exit_code(error.cause());
  } catch (const std::bad_alloc&) {
    std::fprintf(stderr, "error[out-of-memory]: host memory ran out; try: a smaller batch or model\n");
    return exit_code(Cause::out_of_memory);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "error[internal]: %s\n", error.what());
    return exit_code(Cause::internal);
  }
}
