#include "comm/greeting.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>

#include "base/digest.h"
#include "comm/rank_zero_watch.h"

namespace amdahl {
namespace {

using Clock = Deadline::Clock;
using wire::Frame;
using wire::FrameType;

constexpr double kSilentSeconds = 10;   // rank 0 answers at once, by its server thread
constexpr double kClosedSeconds = 1.5;  // a rank 0 that ends closes its connections; a port closes with it
constexpr std::chrono::milliseconds kRetry{20}, kRefused{300};  // the latter spares another program

std::string this_process() {
  char host[256] = "?";
  gethostname(host, sizeof host - 1);
  return fmt::format("process {} on {}", getpid(), host);
}

/// A port at which rank 0 may be.
struct Candidate {
  int port;
  wire::Connector connector;
  wire::Socket socket{};
  wire::FrameReader reader{};
  Clock::time_point connected{};
  Clock::time_point first_closed{};
  Clock::time_point next{};  // attempt
};

class Search {
 public:
  Search(const LaunchContext& launch, int first, int last, Deadline deadline)
      : launch_(launch), token_(token_of(launch)), deadline_(deadline) {
    for (int port = first; port <= last; ++port)
      candidates_.push_back({port, wire::Connector(launch.master_address, port)});
  }

  Greeting run(const std::function<void()>& check) {
    RankZeroWatch rank_zero(launch_);
    // At a range of ports a shrunk job meets again, whose rank 0 was started as another rank.
    const bool watches = launch_.rank != 0 && alone();
    for (;;) {
      if (check) check();
      if (watches) rank_zero.check();
      for (Candidate& each : candidates_)
        if (!each.socket.open() && Clock::now() >= each.next) connect(each);
      if (Candidate* found = wait_for_answer()) return {std::move(found->socket), std::move(found->reader)};
      if (deadline_.expired()) throw unreachable();
    }
  }

 private:
  bool alone() const { return candidates_.size() == 1; }

  void connect(Candidate& each) {
    each.socket = each.connector.attempt(deadline_);
    if (!each.socket.open()) return;
    each.reader = wire::FrameReader(token_);
    each.connected = Clock::now();
    const Frame hello{.type = FrameType::hello, .a = launch_.rank, .b = launch_.world_size, .value = this_process()};
    wire::send_all(each.socket.fd(), wire::encode(hello, token_));
  }

  /// The candidate that is rank 0 of this job; null after a short wait.
  Candidate* wait_for_answer() {
    std::vector<pollfd> polled;
    for (const Candidate& each : candidates_) polled.push_back({each.socket.fd(), POLLIN, 0});
    poll(polled.data(), polled.size(), static_cast<int>(kRetry.count()));
    for (size_t i = 0; i < candidates_.size(); ++i)
      if (polled[i].revents != 0 && hears(candidates_[i])) return &candidates_[i];
    const double patience = std::min(kSilentSeconds, 0.9 * seconds_);
    for (Candidate& each : candidates_)
      if (alone() && each.socket.open() && Clock::now() - each.connected > std::chrono::duration<double>(patience))
        throw foreign("does not answer");
    return nullptr;
  }

  /// Whether it is rank 0 of this job. Throws what that answers.
  bool hears(Candidate& each) {
    char buffer[4096];
    const ssize_t bytes = recv(each.socket.fd(), buffer, sizeof buffer, MSG_DONTWAIT);
    if (bytes < 0 && (errno == EINTR || errno == EAGAIN || errno == EWOULDBLOCK)) return false;
    if (bytes <= 0) return closed(each);
    each.reader.append(buffer, static_cast<size_t>(bytes));
    std::optional<Frame> answer;
    try {
      answer = each.reader.next();
    } catch (const Error& error) {
      drop(each);
      if (alone())
        throw foreign(error.cause() == Cause::launcher_mismatch ? "is rank 0 of another job"
                                                                : "answers with something else");
      return false;
    }
    if (answer && answer->type == FrameType::failure) throw wire::decode_error(answer->value);
    if (answer && answer->type == FrameType::bye) return closed(each);
    return answer.has_value();
  }

  bool closed(Candidate& each) {
    drop(each);
    if (each.first_closed == Clock::time_point()) each.first_closed = Clock::now();
    if (alone() && Clock::now() - each.first_closed > std::chrono::duration<double>(kClosedSeconds))
      throw foreign("closed the connection without an answer");
    return false;
  }

  void drop(Candidate& each) {
    each.socket.close();
    each.next = Clock::now() + kRefused;
  }

  Error foreign(const std::string& what) const {
    return Error(Cause::peer_unreachable,
                 fmt::format("the program at {}:{} {}: it is not rank 0 of this job, or another build of it",
                             launch_.master_address, candidates_.front().port, what),
                 wire::kPortRemedy);
  }

  Error unreachable() const {
    const std::string ports = alone() ? std::to_string(candidates_.front().port)
                                      : fmt::format("{}-{}", candidates_.front().port, candidates_.back().port);
    return wire::socket_error(fmt::format("rank 0 at {}:{} could not be reached", launch_.master_address, ports),
                              candidates_.front().connector.error_number(),
                              "check that rank 0 runs, and that AMDAHL_MASTER_ADDR and AMDAHL_MASTER_PORT are the same "
                              "for every rank");
  }

  const LaunchContext& launch_;
  const uint64_t token_;
  const Deadline deadline_;
  const double seconds_ = std::chrono::duration<double>(deadline_.remaining()).count();
  std::vector<Candidate> candidates_;
};

}  // namespace

uint64_t token_of(const LaunchContext& launch) {
  return digest_of(fmt::format("{}|{}", launch.job, launch.master_port));
}

Greeting greet_rank_zero(const LaunchContext& launch, int first, int last, Deadline deadline,
                         const std::function<void()>& check) {
  return Search(launch, first, last, deadline).run(check);
}

}  // namespace amdahl
