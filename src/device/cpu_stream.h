// The stream of a CPU virtual device: a FIFO queue with its own worker thread.
//
// Threads: the rank's host thread enqueues, records, waits and synchronizes; the worker runs the work. An exception in
// a work item poisons the stream: later work is skipped, events still complete and pass the error to streams that wait
// for them, and every later synchronize rethrows the first error. Each worker computes with one math thread.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/wait_point.h"
#include "device/device.h"

namespace amdahl {

/// One recording of an event: shared by the event, the stream that passes it and the streams that wait for it.
struct CpuMark {
  std::atomic<bool> passed{false};
  int64_t time_ns = 0;       // steady clock; valid once passed
  std::exception_ptr error;  // error of the recording stream if it is poisoned; valid once passed
  WaitPoint waiters;
};

class CpuEvent : public Event {
 public:
  bool done() const override { return !mark_ || mark_->passed.load(std::memory_order_acquire); }
  /// The last recording, or null. Host thread only.
  const std::shared_ptr<CpuMark>& mark() const { return mark_; }
  void set_mark(std::shared_ptr<CpuMark> mark) { mark_ = std::move(mark); }

 private:
  std::shared_ptr<CpuMark> mark_;
};

class CpuStream : public Stream {
 public:
  /// `speed`: fraction of the processor's speed that work on the stream seems to have.
  CpuStream(Device& device, std::string name, double speed = 1);
  /// Runs the queued work, or drops it during stack unwinding, then joins the worker.
  ~CpuStream() override;
  CpuStream(const CpuStream&) = delete;
  CpuStream& operator=(const CpuStream&) = delete;

  /// Appends work for the worker thread. Never blocks on the queue's progress; what `work` points to must outlive it.
  void enqueue(std::function<void()> work);

  Device& device() override { return device_; }
  void record(Event& event) override;
  void wait(Event& event) override;
  void synchronize(Deadline deadline) override;

  /// Scratch memory of the worker, one block per slot, counted as device memory and kept until the stream is destroyed.
  /// Worker thread only. A request for a larger block frees the slot's earlier block with its contents.
  void* scratch(size_t slot, size_t bytes);

  /// Waits without a deadline and without throwing. Must not be called by a worker thread, because streams can wait for
  /// each other.
  void drain() noexcept;
  bool on_worker() const { return std::this_thread::get_id() == worker_.get_id(); }
  /// Time that the worker has spent in work items since construction, without waits for events.
  double busy_us() override { return static_cast<double>(busy_ns_.load(std::memory_order_relaxed)) * 1e-3; }
  /// "stream 'compute' of CPU virtual device 0", for messages.
  const std::string& label() const { return label_; }

 private:
  enum class Kind { work, record, wait };
  struct Item {
    Kind kind;
    std::function<void()> work;     // Kind::work
    std::shared_ptr<CpuMark> mark;  // Kind::record and Kind::wait
  };

  void push(Item item);
  void run_worker();
  void run_item(Item& item);
  void run_slowly(const std::function<void()>& work);
  void poison(std::exception_ptr error);
  bool finished_by(uint64_t target, Deadline deadline);
  void give_up(const Error& error);

  Device& device_;
  const std::string label_;
  const double extra_;  // waiting per time of work
  double owed_ns_ = 0;  // waiting that is due; of the worker

  std::mutex mutex_;         // guards queue_ and error_
  std::vector<Item> queue_;  // the worker swaps it with an empty one
  std::exception_ptr error_;

  std::array<std::unique_ptr<Buffer>, 2> scratch_;  // used by the worker, then by the destructor

  std::atomic<uint64_t> pushed_{0};     // items ever enqueued
  std::atomic<uint64_t> completed_{0};  // items ever finished or skipped
  std::atomic<bool> poisoned_{false};
  std::atomic<bool> stopping_{false};
  std::atomic<bool> working_{false};  // a work item is running
  std::atomic<int64_t> busy_ns_{0};
  WaitPoint work_ready_;  // the worker waits here
  WaitPoint progress_;    // synchronize waits here
  std::thread worker_;    // last member: starts after all others are initialised
};

/// The stream as a CpuStream; throws Error{internal} when it belongs to another backend.
CpuStream& as_cpu(Stream& stream);

/// Limits the math threads that the calling thread starts (OpenMP). No-op in a build without OpenMP.
void limit_math_threads(int count);

}  // namespace amdahl
