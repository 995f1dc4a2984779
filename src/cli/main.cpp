// The program: parses the command line, runs one command, and turns an Error into one line and its exit code.
#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <new>
#include <string>
#include <system_error>

#include "cli/color.h"
#include "cli/commands.h"
#include "cli/environment.h"
#include "cli/launcher_watch.h"

namespace {

// Opens closed standard streams (`2>&-`) on /dev/null. Otherwise a file opened later would get their descriptor and
// receive what is printed.
void open_closed_streams() {
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    if (fcntl(fd, F_GETFD) < 0) open("/dev/null", O_RDWR);  // gets the lowest free descriptor, which is this one
}

// Closed pipe (`amdahl report RUN | head -1`): ends silently with the exit code of SIGPIPE, as other programs do.
int output_failed(int error_number) {
  using namespace amdahl;
  if (error_number == EPIPE) return 128 + SIGPIPE;
  const Error error(Cause::disk_full, std::string("standard output cannot be written: ") + std::strerror(error_number),
                    "free some space, or send the output elsewhere; run folders are kept");
  cli::show_error(error);
  return exit_code(error.cause());
}

constexpr char kNoMemory[] = "error[out-of-memory]: host memory ran out; try: a smaller batch or model\n";

// Called when there is no memory even for an error, in any thread.
[[noreturn]] void end_without_memory() {
  try {
    if (const std::exception_ptr present = std::current_exception()) std::rethrow_exception(present);
  } catch (const std::bad_alloc&) {
    [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, kNoMemory, sizeof kNoMemory - 1);
    _exit(amdahl::exit_code(amdahl::Cause::out_of_memory));
  } catch (...) {
  }
  std::abort();
}

bool g_at_work = false;  // main has not returned

// Some libraries exit the process themselves: OpenMP's does when it cannot create a thread. They have printed their
// message to stderr.
void ended_by_library() {
  if (!g_at_work) return;
  using namespace amdahl;
  std::fflush(stdout);
  const Error error(Cause::environment_missing, "a library ended the program, for the reason above",
                    "a higher limit of processes (ulimit -u) or of memory (ulimit -v), or fewer devices");
  cli::show_error(error);
  _exit(exit_code(error.cause()));
}

int launcher_ended(const std::string& launcher) {
  using namespace amdahl;
  const Error error(Cause::rank_died, launcher + ", which launched this rank, ended before it",
                    "the job again; what was finished before is kept");
  cli::show_error(error);
  return exit_code(error.cause());
}

int run_program(int argc, char** argv) {
  using namespace amdahl;
  try {
    open_closed_streams();
    std::set_terminate(end_without_memory);
    cli::watch_signals();
    cli::watch_launcher(cli::process_environment());
    const int code = cli::parse_and_run(argc, argv);
    return std::fflush(stdout) == 0 ? code : output_failed(errno);
  } catch (const Error& error) {
    if (const std::string launcher = cli::gone_launcher(); error.cause() == Cause::interrupted && !launcher.empty())
      return launcher_ended(launcher);
    cli::show_error(error);
    if (error.cause() == Cause::rank_died) cli::let_failed_rank_end_first();
    if (error.cause() == Cause::interrupted && cli::signal_exit_code() != 0) return cli::signal_exit_code();
    return exit_code(error.cause());
  } catch (const std::bad_alloc&) {
    std::fputs(kNoMemory, stderr);
    return exit_code(Cause::out_of_memory);
  } catch (const std::system_error& error) {  // thrown by put() and fmt::print
    return output_failed(error.code().value());
  } catch (const std::exception& error) {
    std::fprintf(stderr, "error[internal]: %s\n", error.what());
    return exit_code(Cause::internal);
  }
}

}  // namespace

int main(int argc, char** argv) {
  std::atexit(ended_by_library);
  g_at_work = true;
  const int code = run_program(argc, argv);
  g_at_work = false;
  return code;
}
