#include <fmt/format.h>

#include <exception>
#include <mutex>
#include <thread>

#include "base/start_thread.h"
#include "comm/world.h"

namespace amdahl {
namespace {

/// The exception being handled, as an Error attributed to `rank`; an error that has a rank already keeps it.
Error current_error(int rank) {
  try {
    throw;
  } catch (const Error& error) {
    return error.rank() >= 0 ? error : error.with_rank(rank);
  } catch (const std::bad_alloc&) {
    return Error(Cause::out_of_memory, "host memory ran out", "use a smaller batch or model", rank);
  } catch (const std::exception& error) {
    return Error(Cause::internal, error.what(), {}, rank);
  } catch (...) {
    return Error(Cause::internal, "an exception of unknown type", {}, rank);
  }
}

}  // namespace

void run_rank_threads(int world_size, const std::function<void(int rank)>& fn,
                      const std::function<void(const Error&)>& abort_all) {
  std::mutex mutex;
  std::unique_ptr<Error> first;
  const auto run_rank = [&](int rank) {
    try {
      fn(rank);
    } catch (...) {
      const Error error = current_error(rank);
      {
        std::lock_guard lock(mutex);
        if (first) return;  // a consequence of the first error
        first = std::make_unique<Error>(error);
      }
      if (abort_all) abort_all(error);
    }
  };
  std::vector<std::thread> threads;
  try {
    for (int rank = 0; rank < world_size; ++rank)
      threads.push_back(start_thread(fmt::format("rank {}", rank), [&, rank] { run_rank(rank); }));
  } catch (const Error& failure) {
    {
      std::lock_guard lock(mutex);
      if (!first) first = std::make_unique<Error>(failure);
    }
    if (abort_all) abort_all(failure);
  }
  for (std::thread& thread : threads) thread.join();
  if (first) throw Error(*first);
}

}  // namespace amdahl
