// Client of the rendezvous, one per rank including rank 0: requests from any thread, and a watcher thread that reads
// the answers, sends heartbeats and reacts to the first failure.
#include <fmt/format.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <thread>

#include "base/start_thread.h"
#include "comm/greeting.h"
#include "comm/rank_zero_watch.h"
#include "comm/rendezvous_server.h"
#include "comm/wire.h"
#include "comm/world.h"

namespace amdahl {
namespace {

using wire::Frame;
using wire::FrameType;

/// Time that a rank has after a failure to leave by itself before the failure handler is called.
constexpr std::chrono::milliseconds kGrace{1500};
constexpr double kEchoSeconds = 0.5;  // for the server's answer to a report or a query of missing ranks
constexpr double kTellSeconds = 3;    // for ranks that have not come yet when this one ends

class TcpRendezvous : public RendezvousStore {
 public:
  TcpRendezvous(const LaunchContext& launch, double timeout_seconds)
      : launch_(launch), token_(token_of(launch)), timeout_seconds_(timeout_seconds), wake_(wire::make_wake_event()) {
    const Deadline deadline = Deadline::after_seconds(timeout_seconds);
    if (launch.rank == 0) server_ = make_server(launch, timeout_seconds);
    // A world of one process needs no agreed port.
    const int first = server_ ? server_->port() : launch.master_port;
    const int last = server_ ? first : std::max(first, launch.last_port);
    Greeting greeting = greet_rank_zero(launch, first, last, deadline, [this] { require_accepting(); });
    socket_ = std::move(greeting.socket);
    reader_ = std::move(greeting.reader);
    last_heard_ = Deadline::Clock::now();
    watcher_ = start_thread("the rendezvous's watcher", [this] { watch(); });
  }

  ~TcpRendezvous() override {
    {
      std::lock_guard lock(mutex_);
      ending_ = true;
    }
    eventfd_write(wake_.fd(), 1);
    watcher_.join();
    socket_.close();
  }

  const LaunchContext& launch() const override { return launch_; }

  void await_hellos(Deadline deadline) const {
    if (server_) server_->await_hellos(deadline);
  }

  void set(const std::string& key, const std::string& value) override {
    throw_failure();
    write({.type = FrameType::set, .key = key, .value = value});
  }

  std::string get(const std::string& key, int from, Deadline deadline) override {
    if (auto value = ask({.type = FrameType::get, .a = from, .key = key}, deadline)) return *value;
    throw Error(Cause::rank_hung, fmt::format("nobody has set '{}' in the rendezvous before the deadline", key),
                "look for a rank that stopped, or raise `timeout_seconds`");
  }

  std::vector<std::string> exchange(const std::string& name, const RankGroup& group, const std::string& message,
                                    Deadline deadline) override {
    const auto start = Deadline::Clock::now();
    // No members: the first ranks of the job.
    const std::string members = group.is_first() ? "" : fmt::format("{}", fmt::join(group.members, " "));
    Frame frame{.type = FrameType::exchange, .a = group.own_job_rank(), .b = group.size(), .key = name};
    frame.value = wire::pack({members, message});
    if (auto packed = ask(std::move(frame), deadline)) return wire::unpack(*packed);
    const auto missing =
        ask({.type = FrameType::missing, .b = group.size(), .key = name}, Deadline::after_seconds(kEchoSeconds));
    const std::chrono::duration<double> waited = Deadline::Clock::now() - start;
    const Error error(Cause::rank_hung,
                      fmt::format("{} did not reach exchange '{}' within {:.1f} s",
                                  missing ? *missing : "rank 0, which serves the rendezvous,", name, waited.count()),
                      "look at what that rank is doing, or raise `timeout_seconds` if it is only slow",
                      missing ? std::atoi(missing->c_str() + missing->find(' ')) : 0);
    report_failure(error);
    throw_failure();
    throw error;
  }

  std::unique_ptr<Error> failure() override {
    std::lock_guard lock(mutex_);
    return failure_ ? std::make_unique<Error>(*failure_) : nullptr;
  }

  std::unique_ptr<Error> wait_failure(Deadline deadline) override {
    std::unique_lock lock(mutex_);
    changed_.wait_until(lock, deadline.time(), [&] { return failure_ != nullptr; });
    return failure_ ? std::make_unique<Error>(*failure_) : nullptr;
  }

  void report_failure(const Error& error) noexcept override {
    try {
      if (failure()) return;
      write({.type = FrameType::failure, .value = wire::encode_error(error)});
      if (!wait_failure(Deadline::after_seconds(kEchoSeconds))) record_failure(error);
    } catch (...) {  // out of memory during failure: the other ranks see the connection close
    }
  }

  void report_when(std::function<bool()> stopped) override {
    std::lock_guard lock(mutex_);
    stopped_ = std::move(stopped);
  }

  void leave() noexcept override {
    {
      std::lock_guard lock(mutex_);
      if (left_) return;
      left_ = true;
    }
    write({.type = FrameType::leave});
  }

  int left_rank(const RankGroup& group) override {
    std::lock_guard lock(mutex_);
    for (const int left : left_ranks_)
      if (std::find(group.members.begin(), group.members.end(), left) != group.members.end()) return left;
    return -1;
  }

  size_t add_listener(std::function<void(const Error&)> listener) override {
    std::unique_ptr<Error> already;
    size_t id = 0;
    {
      std::lock_guard lock(listeners_mutex_);
      id = ++next_listener_;
      listeners_[id] = listener;
      already = failure();
    }
    if (already) listener(*already);
    return id;
  }

  void remove_listener(size_t id) noexcept override {
    std::lock_guard lock(listeners_mutex_);
    listeners_.erase(id);
  }

  void set_failure_handler(std::function<void(const Error&)> handler) override {
    std::lock_guard lock(mutex_);
    handler_ = std::move(handler);
  }

 private:
  /// Files may run out with the connection of any rank, that of rank 0 included.
  void require_accepting() const {
    if (server_ && server_->accept_error() != 0) throw accept_failure(server_->port(), server_->accept_error());
  }

  void throw_failure() {
    if (const auto error = failure()) throw Error(*error);
  }

  void write(const Frame& frame) noexcept {
    std::lock_guard lock(write_mutex_);
    wire::send_all(socket_.fd(), wire::encode(frame, token_));  // the watcher detects a closed connection
  }

  /// Sends a request and waits for its answer; absent at the deadline. Throws the first failure.
  std::optional<std::string> ask(Frame frame, Deadline deadline) {
    throw_failure();
    bool served = true;
    {
      std::lock_guard lock(mutex_);
      served = !server_left_;
      frame.id = ++next_id_;
      answers_[frame.id];  // the watcher drops answers without an entry
    }
    if (!served) record_failure(left_error(0, wait_text(frame)));
    write(frame);
    std::unique_lock lock(mutex_);
    const auto ready = [&] { return failure_ || answers_[frame.id].has_value(); };
    changed_.wait_until(lock, deadline.time(), ready);
    auto answer = std::move(answers_[frame.id]);
    answers_.erase(frame.id);
    if (!answer && failure_) throw Error(*failure_);
    return answer;
  }

  std::string wait_text(const Frame& frame) const {
    return fmt::format("rank {} waits for {} '{}'", launch_.rank,
                       frame.type == FrameType::exchange ? "exchange" : "key", frame.key);
  }

  // The rest runs on the watcher thread (record_failure also on a reporting thread).

  void record_failure(const Error& error) {
    {
      std::lock_guard lock(mutex_);
      if (failure_) return;
      failure_ = std::make_unique<Error>(error);
      failure_time_ = Deadline::Clock::now();
    }
    changed_.notify_all();
    std::lock_guard lock(listeners_mutex_);
    for (const auto& [id, listener] : listeners_) listener(error);
  }

  void watch() {
    bool connected = true;
    auto next_beat = Deadline::Clock::now();
    const auto interval = std::chrono::duration_cast<Deadline::Clock::duration>(beat_interval(timeout_seconds_));
    for (;;) {
      pollfd polled[2] = {{wake_.fd(), POLLIN, 0}, {connected ? socket_.fd() : -1, POLLIN, 0}};
      const auto wait = std::chrono::duration_cast<std::chrono::milliseconds>(
          std::min<Deadline::Clock::duration>(interval, std::chrono::milliseconds(100)));
      const int events = poll(polled, 2, static_cast<int>(std::max<int64_t>(1, wait.count())));
      {
        std::lock_guard lock(mutex_);
        if (ending_) return;
      }
      const auto now = Deadline::Clock::now();
      if (connected && events > 0 && polled[1].revents)
        connected = read_answers();
      else if (connected && now - last_heard_ > std::chrono::duration<double>(timeout_seconds_))
        lose_server(true);
      if (connected && now >= next_beat) {
        write({.type = FrameType::beat});
        next_beat = now + interval;
      }
      try {
        require_accepting();
      } catch (const Error& error) {
        record_failure(error);
      }
      report_if_stopped();
      call_handler_after_grace();
    }
  }

  /// False once the connection is closed.
  bool read_answers() {
    char buffer[16384];
    const ssize_t bytes = recv(socket_.fd(), buffer, sizeof buffer, MSG_DONTWAIT);
    if (bytes < 0 && (errno == EINTR || errno == EAGAIN || errno == EWOULDBLOCK)) return true;
    if (bytes <= 0) {
      lose_server(false);
      return false;
    }
    last_heard_ = Deadline::Clock::now();
    reader_.append(buffer, static_cast<size_t>(bytes));
    try {
      while (auto frame = reader_.next()) handle(*frame);
    } catch (const Error& error) {
      record_failure(error);
      return false;
    }
    return true;
  }

  void handle(const Frame& frame) {
    if (frame.type == FrameType::failure) return record_failure(wire::decode_error(frame.value));
    if (frame.type == FrameType::bye) return end_without_server();
    std::lock_guard lock(mutex_);
    if (frame.type == FrameType::left) left_ranks_.insert(frame.a);
    if (frame.type != FrameType::value) return;
    const auto waiting = answers_.find(frame.id);
    if (waiting == answers_.end()) return;
    waiting->second = frame.value;
    changed_.notify_all();
  }

  /// Rank 0 has ended its work and its server: pending requests get no answer.
  void end_without_server() {
    bool waits = false;
    {
      std::lock_guard lock(mutex_);
      server_left_ = true;
      left_ranks_.insert(0);
      waits = !left_ && std::any_of(answers_.begin(), answers_.end(), [](const auto& each) { return !each.second; });
    }
    if (waits) record_failure(left_error(0, fmt::format("rank {} waits for its answer", launch_.rank)));
  }

  void lose_server(bool silent) {
    {
      std::lock_guard lock(mutex_);
      if (server_left_ || left_) return;
    }
    if (silent)
      record_failure(Error(Cause::rank_hung,
                           fmt::format("rank 0 is silent for {:g} s (it serves the rendezvous and sends no heartbeat)",
                                       timeout_seconds_),
                           "look whether that process is stopped or its machine overloaded or unreachable", 0));
    else
      record_failure(Error(Cause::rank_died, "rank 0 died (it serves the rendezvous and its connection closed)",
                           "read that rank's own output; the kernel log tells whether it was killed for memory", 0));
  }

  void report_if_stopped() {
    {
      std::lock_guard lock(mutex_);
      if (failure_ || left_ || !stopped_ || !stopped_()) return;
    }
    const Error error(Cause::interrupted, "stopped by the user", "the same command again", launch_.rank);
    write({.type = FrameType::failure, .value = wire::encode_error(error)});
    record_failure(error);
  }

  void call_handler_after_grace() {
    std::function<void(const Error&)> handler;
    std::unique_ptr<Error> error;
    {
      std::lock_guard lock(mutex_);
      if (!failure_ || left_ || !handler_ || Deadline::Clock::now() < failure_time_ + kGrace) return;
      handler.swap(handler_);
      error = std::make_unique<Error>(*failure_);
    }
    handler(*error);
  }

  const LaunchContext launch_;
  const uint64_t token_;
  const double timeout_seconds_;
  std::unique_ptr<RendezvousServer> server_;  // rank 0 only; ends after the connection has closed
  wire::Socket wake_;
  wire::Socket socket_;
  std::mutex write_mutex_;  // guards writing to socket_

  std::mutex mutex_;  // guards the following, up to the listeners
  std::condition_variable changed_;
  std::map<uint64_t, std::optional<std::string>> answers_;
  std::unique_ptr<Error> failure_;
  Deadline::Clock::time_point failure_time_;
  std::function<void(const Error&)> handler_;
  std::function<bool()> stopped_;
  uint64_t next_id_ = 0;
  std::set<int> left_ranks_;
  bool left_ = false, server_left_ = false, ending_ = false;

  std::mutex listeners_mutex_;  // held while listeners run, so that a removed one is not running
  std::map<size_t, std::function<void(const Error&)>> listeners_;
  size_t next_listener_ = 0;

  wire::FrameReader reader_;                // watcher thread
  Deadline::Clock::time_point last_heard_;  // watcher thread
  std::thread watcher_;
};

/// Waits until all ranks have joined; the error names missing ranks.
void join_world(RendezvousStore& store, double timeout_seconds) {
  const LaunchContext& launch = store.launch();
  try {
    store.exchange("join", RankGroup::first(launch.world_size, launch.rank), {},
                   Deadline::after_seconds(timeout_seconds));
  } catch (const Error& error) {
    if (error.cause() != Cause::rank_hung) throw;
    throw Error(Cause::peer_unreachable, error.what(),
                fmt::format("check that all {} ranks were started and can reach {}:{}", launch.world_size,
                            launch.master_address, launch.master_port),
                error.rank());
  }
}

}  // namespace

Error left_error(int rank, const std::string& wait) {
  return Error(Cause::rank_died, fmt::format("rank {} ended its work and left the job, but {}", rank, wait),
               "that rank's own output; every rank must be given the same work", rank);
}

std::unique_ptr<RendezvousStore> make_rendezvous(const LaunchContext& launch, double timeout_seconds) {
  auto store = std::make_unique<TcpRendezvous>(launch, timeout_seconds);
  join_world(*store, timeout_seconds);
  return store;
}

void tell_early_end(const LaunchContext& launch, const Error& error) noexcept try {
  if (!launch.multi_process() || !may_have_other_ranks(launch)) return;
  TcpRendezvous store(launch, kTellSeconds);
  store.report_failure(error.rank() >= 0 ? error : error.with_rank(launch.rank));
  store.await_hellos(Deadline::after_seconds(kTellSeconds));
} catch (const std::exception&) {  // nobody to tell; the caller reports the error itself
}

}  // namespace amdahl
