#include "device/cpu_stream.h"

#include <fmt/format.h>

#include <chrono>
#include <ctime>
#include <utility>

#include "base/start_thread.h"

namespace amdahl {
namespace {

int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

}  // namespace

CpuStream::CpuStream(Device& device, std::string name, double speed)
    : device_(device),
      label_(fmt::format("stream '{}' of {}", name, device.spec().name)),
      extra_(1 / speed - 1),
      worker_(start_thread("the worker of " + label_, [this] { run_worker(); })) {}

CpuStream::~CpuStream() {
  if (std::uncaught_exceptions() > 0)  // unwinding: memory that queued work uses may be freed
    poison(std::make_exception_ptr(Error(Cause::internal, label_ + " was destroyed while an error unwound")));
  stopping_.store(true, std::memory_order_release);
  work_ready_.notify();
  worker_.join();
}

void CpuStream::push(Item item) {
  {
    std::lock_guard lock(mutex_);
    queue_.push_back(std::move(item));
  }
  pushed_.fetch_add(1, std::memory_order_acq_rel);
  work_ready_.notify();
}

void* CpuStream::scratch(size_t slot, size_t bytes) {
  std::unique_ptr<Buffer>& piece = scratch_.at(slot);
  if (!piece || piece->bytes() < bytes) {
    piece.reset();
    piece = device_.allocate(bytes);
  }
  return piece->data();
}

void CpuStream::enqueue(std::function<void()> work) { push({Kind::work, std::move(work), nullptr}); }

void CpuStream::record(Event& event) {
  auto& cpu_event = dynamic_cast<CpuEvent&>(event);
  auto mark = std::make_shared<CpuMark>();
  cpu_event.set_mark(mark);
  push({Kind::record, nullptr, std::move(mark)});
}

void CpuStream::wait(Event& event) {
  const std::shared_ptr<CpuMark>& mark = dynamic_cast<CpuEvent&>(event).mark();
  if (mark) push({Kind::wait, nullptr, mark});
}

void CpuStream::synchronize(Deadline deadline) {
  const uint64_t target = pushed_.load(std::memory_order_acquire);
  // A stream that makes progress is slow, not hung: the deadline restarts whenever items have finished. So a collective
  // in the queue, whose own deadline starts when it begins, can expire first and name the missing rank.
  const auto span = deadline.time() - Deadline::Clock::now();
  uint64_t finished = completed_.load(std::memory_order_acquire);
  while (!finished_by(target, deadline)) {
    const uint64_t now = completed_.load(std::memory_order_acquire);
    if (now != finished) {
      finished = now;
      deadline = Deadline::after(span);
      continue;
    }
    const uint64_t left = target - now;
    const Error error(
        Cause::rank_hung, fmt::format("{} has {} of {} queued items unfinished at the deadline", label_, left, target),
        "raise `timeout_seconds` if the work is really this slow; otherwise look for a rank that stopped");
    give_up(error);
    throw error;
  }
  if (poisoned_.load(std::memory_order_acquire)) {
    std::lock_guard lock(mutex_);
    std::rethrow_exception(error_);
  }
}

// False at the deadline. Polls the stop condition, because a queue may hold minutes of work.
bool CpuStream::finished_by(uint64_t target, Deadline deadline) {
  constexpr std::chrono::milliseconds kLookInterval{100};
  const auto reached = [&] { return completed_.load(std::memory_order_acquire) >= target; };
  for (;;) {
    try {
      device_.throw_if_stopped();
    } catch (const Error& error) {
      give_up(error);
      throw;
    }
    const Deadline look = Deadline::after(kLookInterval);
    if (progress_.wait(reached, look.time() < deadline.time() ? look : deadline)) return true;
    if (deadline.expired()) return false;
  }
}

// The caller is about to unwind and to free memory that queued work uses: no further item may start, and a running item
// must have ended. Waits inside an item have their own deadlines.
void CpuStream::give_up(const Error& error) {
  constexpr double kPatienceSeconds = 10;
  poison(std::make_exception_ptr(error));
  progress_.wait([&] { return !working_.load(); }, Deadline::after_seconds(kPatienceSeconds));
}

void CpuStream::drain() noexcept {
  const uint64_t target = pushed_.load(std::memory_order_acquire);
  progress_.wait([&] { return completed_.load(std::memory_order_acquire) >= target; });
}

void CpuStream::poison(std::exception_ptr error) {
  {
    std::lock_guard lock(mutex_);
    if (!error_) error_ = std::move(error);
  }
  poisoned_.store(true);  // stored before working_ is read; run_item stores and reads in the opposite order
}

void CpuStream::run_item(Item& item) {
  if (item.kind == Kind::record) {
    if (poisoned_.load(std::memory_order_acquire)) {
      std::lock_guard lock(mutex_);
      item.mark->error = error_;
    }
    item.mark->time_ns = now_ns();
    item.mark->passed.store(true, std::memory_order_release);
    item.mark->waiters.notify();
    return;
  }
  if (poisoned_.load(std::memory_order_acquire)) return;
  if (item.kind == Kind::wait) {
    CpuMark& mark = *item.mark;
    mark.waiters.wait([&] { return mark.passed.load(std::memory_order_acquire); });
    if (mark.error) poison(mark.error);
    return;
  }
  working_.store(true);
  if (poisoned_.load()) {
    working_.store(false);
    return;
  }
  const int64_t start = now_ns();
  try {
    extra_ > 0 ? run_slowly(item.work) : item.work();
  } catch (...) {
    poison(std::current_exception());
  }
  working_.store(false);
  busy_ns_.fetch_add(now_ns() - start, std::memory_order_relaxed);
}

// By the thread's processor time: what a collective waits for its peers is not slowed.
void CpuStream::run_slowly(const std::function<void()>& work) {
  constexpr double kShortestSleepNs = 50'000;
  const auto processor_ns = [] {
    timespec time{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) * 1e9 + static_cast<double>(time.tv_nsec);
  };
  const double before = processor_ns();
  work();
  owed_ns_ += extra_ * (processor_ns() - before);
  if (owed_ns_ < kShortestSleepNs) return;
  const int64_t start = now_ns();
  std::this_thread::sleep_for(std::chrono::nanoseconds(static_cast<int64_t>(owed_ns_)));
  owed_ns_ -= static_cast<double>(now_ns() - start);  // below 0 where the sleep was longer
}

void CpuStream::run_worker() {
  limit_math_threads(1);
  std::vector<Item> batch;
  uint64_t taken = 0;
  for (;;) {
    work_ready_.wait(
        [&] { return pushed_.load(std::memory_order_acquire) > taken || stopping_.load(std::memory_order_acquire); });
    {
      std::lock_guard lock(mutex_);
      batch.swap(queue_);
    }
    // stopping_ is set by the only thread that enqueues, so an empty queue after it is final.
    if (batch.empty() && stopping_.load(std::memory_order_acquire)) return;
    taken += batch.size();
    for (Item& item : batch) {
      run_item(item);
      item.work = nullptr;  // destroys the captures before the item counts as done
      completed_.fetch_add(1, std::memory_order_acq_rel);
      progress_.notify();
    }
    batch.clear();
  }
}

CpuStream& as_cpu(Stream& stream) {
  auto* cpu = dynamic_cast<CpuStream*>(&stream);
  if (!cpu) throw Error(Cause::internal, "a CPU backend was handed a stream of another backend");
  return *cpu;
}

}  // namespace amdahl
