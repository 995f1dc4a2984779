// The program: parse, run one command, turn an Error into one line and its exit code.
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <exception>
#include <new>
#include <string>
#include <system_error>

#include "cli/commands.h"

namespace {

// Nobody reads on (`amdahl report RUN | head -1`): ends silently with the code of SIGPIPE, as other programs do.
int output_failed(int error_number) {
  using namespace amdahl;
  if (error_number == EPIPE) return 128 + SIGPIPE;
  const Error error(Cause::disk_full, std::string("standard output cannot be written: ") + std::strerror(error_number),
                    "free some space, or send the output elsewhere; run folders are kept");
  std::fprintf(stderr, "%s\n", error.line().c_str());
  return exit_code(error.cause());
}

}  // namespace

int main(int argc, char** argv) {
  using namespace amdahl;
  try {
    cli::watch_signals();
    const int code = cli::parse_and_run(argc, argv);
    return std::fflush(stdout) == 0 ? code : output_failed(errno);
  } catch (const Error& error) {
    std::fprintf(stderr, "%s\n", error.line().c_str());
    if (error.cause() == Cause::interrupted && cli::signal_exit_code() != 0) return cli::signal_exit_code();
    return exit_code(error.cause());
  } catch (const std::bad_alloc&) {
    std::fprintf(stderr, "error[out-of-memory]: host memory ran out; try: a smaller batch or model\n");
    return exit_code(Cause::out_of_memory);
  } catch (const std::system_error& error) {  // of fmt::print
    return output_failed(error.code().value());
  } catch (const std::exception& error) {
    std::fprintf(stderr, "error[internal]: %s\n", error.what());
    return exit_code(Cause::internal);
  }
}
