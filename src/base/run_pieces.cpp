#include "base/run_pieces.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

namespace amdahl {

void run_pieces(size_t count, const std::function<void(size_t)>& piece) {
  std::atomic<size_t> next{0};
  std::mutex mutex;
  std::exception_ptr error;
  const auto work = [&] {
    try {
      for (size_t i = next++; i < count; i = next++) piece(i);
    } catch (...) {
      next = count;
      const std::lock_guard lock(mutex);
      if (!error) error = std::current_exception();
    }
  };
  const auto most = std::clamp<size_t>(std::thread::hardware_concurrency(), 1, 32);
  {
    std::vector<std::jthread> others;
    try {
      while (others.size() + 1 < std::min(most, count)) others.emplace_back(work);
    } catch (const std::system_error&) {  // no more threads: these do it
    }
    work();
  }
  if (error) std::rethrow_exception(error);
}

}  // namespace amdahl
