#include "comm/rendezvous_server.h"

#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <sstream>

#include "amdahl/error.h"
#include "base/start_thread.h"
#include "comm/greeting.h"
#include "comm/rank_list.h"

namespace amdahl {
namespace {

using wire::Frame;
using wire::FrameType;

constexpr double kLingerSeconds = 5;         // for ranks that leave after rank 0
constexpr double kLingerAfterFailure = 0.2;  // enough to pass the report to the kernel
// A connection is a stranger's until its hello, which is short and follows at once.
constexpr double kHelloSeconds = 5;
constexpr uint32_t kHelloBytes = 1024;
constexpr double kProbeSeconds = 3;  // for the answer of who holds rank 0's port
constexpr size_t kMostStrangers = 64, kLongestProcess = 300;

/// "2 0 3".
std::vector<int> ranks_in(const std::string& text) {
  std::vector<int> ranks;
  std::istringstream words(text);
  for (int rank = 0; words >> rank;) ranks.push_back(rank);
  return ranks;
}

wire::Socket listen_on_free(const LaunchContext& launch) {
  for (int port = launch.master_port;; ++port) try {
      return wire::listen_on(launch.master_address, port);
    } catch (const Error& error) {
      if (error.cause() != Cause::peer_unreachable || port >= launch.last_port) throw;
    }
}

bool is_group(const std::vector<int>& members, int rank, int world_size) {
  std::set<int> known;
  for (const int member : members)
    if (member < 0 || member >= world_size || !known.insert(member).second) return false;
  return known.count(rank) == 1;
}

}  // namespace

std::chrono::duration<double> beat_interval(double timeout_seconds) {
  return std::chrono::duration<double>(std::clamp(timeout_seconds / 8, 0.05, 0.5));
}

Error accept_failure(int port, int error_number) {
  return wire::socket_error(fmt::format("rank 0 cannot accept another rank at its port {}", port), error_number, {});
}

std::unique_ptr<RendezvousServer> make_server(const LaunchContext& launch, double timeout_seconds) try {
  return std::make_unique<RendezvousServer>(launch, timeout_seconds);
} catch (const Error& error) {
  if (error.cause() != Cause::peer_unreachable) throw;
  try {
    const Deadline deadline = Deadline::after_seconds(std::min(timeout_seconds, kProbeSeconds));
    greet_rank_zero(launch, launch.master_port, launch.master_port, deadline);
  } catch (const Error& answer) {
    if (answer.cause() == Cause::launcher_mismatch) throw answer;
  }
  throw;
}

RendezvousServer::RendezvousServer(const LaunchContext& launch, double timeout_seconds)
    : world_size_(launch.world_size),
      job_(token_of(launch)),
      timeout_seconds_(timeout_seconds),
      listener_(listen_on_free(launch)),
      port_(wire::port_of(listener_)),
      wake_(wire::make_wake_event()),
      next_beat_(Clock::now()),
      thread_(start_thread("rank 0's rendezvous", [this] { serve(); })) {}

RendezvousServer::~RendezvousServer() {
  stopping_.store(true);
  eventfd_write(wake_.fd(), 1);
  thread_.join();
}

void RendezvousServer::await_hellos(Deadline deadline) const {
  while (hellos_.load() < world_size_ && !deadline.expired()) std::this_thread::sleep_for(std::chrono::milliseconds(5));
}

void RendezvousServer::serve() {
  std::unique_ptr<Deadline> linger;
  for (;;) {
    wait_for_events();
    watch_heartbeats();
    if (!stopping_.load()) continue;
    if (hellos_.load() >= world_size_) listener_.close();  // the port may be the next job's
    if (!linger || (first_failure_ && linger->remaining() > std::chrono::seconds(1)))
      linger =
          std::make_unique<Deadline>(Deadline::after_seconds(first_failure_ ? kLingerAfterFailure : kLingerSeconds));
    if (finished() || linger->expired()) break;
  }
  for (const ClientPtr& client : clients_)
    if (client->rank >= 0) send(*client, {.type = FrameType::bye});
}

bool RendezvousServer::finished() const {
  return std::all_of(clients_.begin(), clients_.end(), [&](const ClientPtr& client) {
    return client->left || client->rank < 0 || (first_failure_ && client->output.empty());
  });
}

void RendezvousServer::wait_for_events() {
  std::vector<pollfd> polled{{listener_.fd(), POLLIN, 0}, {wake_.fd(), POLLIN, 0}};
  for (const ClientPtr& client : clients_)
    polled.push_back({client->socket.fd(), static_cast<short>(client->output.empty() ? POLLIN : POLLIN | POLLOUT), 0});
  const auto until_beat = std::chrono::duration_cast<std::chrono::milliseconds>(next_beat_ - Clock::now()).count();
  const int wait_ms = stopping_.load() ? 10 : static_cast<int>(std::max<int64_t>(1, until_beat + 1));
  if (poll(polled.data(), polled.size(), wait_ms) <= 0) return;
  const std::vector<ClientPtr> present = clients_;  // a copy, because clients_ changes in the loop
  for (size_t i = 0; i < present.size(); ++i) {
    const short events = polled[i + 2].revents;
    if (events & POLLOUT) flush(*present[i]);
    if (events & (POLLIN | POLLHUP | POLLERR)) read_client(present[i]);
  }
  if (polled[0].revents & POLLIN) accept_clients();
  eventfd_t ignored;
  if (polled[1].revents & POLLIN) eventfd_read(wake_.fd(), &ignored);
}

void RendezvousServer::accept_clients() {
  for (;;) {
    wire::Socket socket(accept4(listener_.fd(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!socket.open() && (errno == EMFILE || errno == ENFILE)) {
      accept_error_.store(errno);
      fail(accept_failure(port_, errno));
      std::this_thread::sleep_for(std::chrono::milliseconds(10));  // poll returns at once while it is pending
    }
    if (!socket.open()) return;
    const int on = 1;
    setsockopt(socket.fd(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    auto client = std::make_shared<Client>();
    client->socket = std::move(socket);
    client->input = wire::FrameReader(job_, kHelloBytes);
    client->connected = client->last_heard = Clock::now();
    clients_.push_back(std::move(client));
    drop_strangers();
  }
}

void RendezvousServer::read_client(const ClientPtr& client) {
  char buffer[16384];
  for (;;) {
    const ssize_t bytes = recv(client->socket.fd(), buffer, sizeof buffer, 0);
    if (bytes < 0 && errno == EINTR) continue;
    if (bytes < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) break;
    if (bytes <= 0) return lose(client);
    client->last_heard = Clock::now();
    client->input.append(buffer, static_cast<size_t>(bytes));
    try {
      while (client->socket.open()) {
        const auto frame = client->input.next();
        if (!frame) break;
        handle(client, *frame);
      }
    } catch (const Error& error) {  // another program, a rank of another build or of another job
      if (error.cause() == Cause::launcher_mismatch) send(*client, {.type = FrameType::bye});
      return lose(client);
    }
    if (!client->socket.open()) return;
  }
}

/// Connections without a hello that are old, or the oldest of too many.
void RendezvousServer::drop_strangers() {
  std::vector<ClientPtr> strangers;
  for (const ClientPtr& client : clients_)
    if (client->rank < 0) strangers.push_back(client);
  const auto limit =
      Clock::now() - std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(kHelloSeconds));
  for (size_t i = 0; i < strangers.size(); ++i)
    if (strangers[i]->connected < limit || i + kMostStrangers < strangers.size()) lose(strangers[i]);
}

void RendezvousServer::handle(const ClientPtr& client, const Frame& frame) {
  if ((frame.type == FrameType::hello) != (client->rank < 0)) return lose(client);
  switch (frame.type) {
    case FrameType::hello:
      return handle_hello(client, frame);
    case FrameType::set: {
      values_[frame.key] = frame.value;
      const auto waiting = waiting_.find(frame.key);
      if (waiting == waiting_.end()) return;
      for (const Question& question : waiting->second) answer(question, frame.value);
      waiting_.erase(waiting);
      return;
    }
    case FrameType::get:
      return handle_get(client, frame);
    case FrameType::exchange:
      return handle_exchange(client, frame);
    case FrameType::missing:
      return answer({client, frame.id}, missing_from(frame));
    case FrameType::failure:
      return fail(wire::decode_error(frame.value));
    case FrameType::leave:
      return handle_leave(client);
    default:
      return;
  }
}

void RendezvousServer::handle_hello(const ClientPtr& client, const Frame& frame) {
  client->process = printable(frame.value, kLongestProcess);
  if (first_failure_) {
    ++hellos_;
    return refuse(client, *first_failure_);
  }
  const char* remedy = "start all ranks with one launcher, and give every job its own AMDAHL_MASTER_PORT";
  if (frame.b != world_size_)
    return refuse(client, Error(Cause::launcher_mismatch,
                                fmt::format("rank {} ({}) was told of {} ranks, rank 0 of {}", frame.a, client->process,
                                            frame.b, world_size_),
                                remedy, frame.a));
  if (frame.a < 0 || frame.a >= world_size_ || joined_.count(frame.a))
    return refuse(client, Error(Cause::launcher_mismatch,
                                fmt::format("a second process says that it is rank {} ({})", frame.a, client->process),
                                remedy, frame.a));
  joined_.insert(frame.a);
  ++hellos_;
  client->rank = frame.a;
  client->input.set_most_bytes(wire::FrameReader::kMostBytes);
  send(*client, {.type = FrameType::beat});  // identifies this server to the client
}

/// Ends a job that is not complete yet, because it lacks the rank that this one should have been; a complete job goes
/// on.
void RendezvousServer::refuse(const ClientPtr& client, const Error& error) {
  if (static_cast<int>(joined_.size()) < world_size_) fail(error);
  send(*client, {.type = FrameType::failure, .value = wire::encode_error(error)});
  lose(client);
}

void RendezvousServer::handle_get(const ClientPtr& client, const Frame& frame) {
  if (const auto value = values_.find(frame.key); value != values_.end())
    return answer({client, frame.id}, value->second);
  waiting_[frame.key].push_back({client, frame.id, frame.a});
  refuse_waits_for_left();
}

void RendezvousServer::handle_leave(const ClientPtr& client) {
  client->left = true;
  if (client->rank < 0) return;
  left_.insert(client->rank);
  for (const ClientPtr& other : clients_)
    if (other != client) send(*other, {.type = FrameType::left, .a = client->rank});
  refuse_waits_for_left();
}

/// A rank that has left sets no keys and joins no exchanges, so that waits for it must fail.
void RendezvousServer::refuse_waits_for_left() {
  if (left_.empty()) return;
  for (const auto& [key, questions] : waiting_)
    for (const Question& question : questions) {
      const ClientPtr client = question.client.lock();
      if (!client || client->left) continue;
      const bool alone = question.from < 0 && left_.size() + 1 >= static_cast<size_t>(world_size_);
      if (alone || left_.count(question.from))
        return fail(left_error(alone ? *left_.begin() : question.from,
                               fmt::format("rank {} waits for '{}' of it", client->rank, key)));
    }
  for (const auto& [name, gathering] : gatherings_)
    for (const int rank : left_)
      if (!gathering.parts.empty() && !gathering.parts.count(rank) &&
          std::find(gathering.members.begin(), gathering.members.end(), rank) != gathering.members.end())
        return fail(left_error(
            rank, fmt::format("rank {} waits for it in exchange '{}'", gathering.parts.begin()->first, name)));
}

/// Ranks missing from an exchange: "1, 2, 3"; only the first of many.
std::string RendezvousServer::missing_from(const Frame& frame) const {
  std::vector<int> missing;
  const auto gathering = gatherings_.find(frame.key);
  const bool known = gathering != gatherings_.end();
  for (const int rank : known ? gathering->second.members : RankGroup::first(world_size_, 0).members)
    if (!known || !gathering->second.parts.count(rank)) missing.push_back(rank);
  return missing.empty() ? "" : rank_list(missing);
}

void RendezvousServer::handle_exchange(const ClientPtr& client, const Frame& frame) {
  std::vector<std::string> said = wire::unpack(frame.value);  // members, message
  if (said.size() != 2 || frame.a != client->rank || frame.b < 1 || frame.b > world_size_) return lose(client);
  std::vector<int> members = said[0].empty() ? RankGroup::first(frame.b, 0).members : ranks_in(said[0]);
  if (!is_group(members, client->rank, world_size_)) return lose(client);
  Gathering& gathering = gatherings_[frame.key];
  if (gathering.members.empty()) gathering.members = std::move(members);
  gathering.parts[frame.a] = std::move(said[1]);
  gathering.questions.push_back({client, frame.id});
  if (gathering.parts.size() < gathering.members.size()) return refuse_waits_for_left();
  std::vector<std::string> parts;
  for (const int rank : gathering.members) parts.push_back(std::move(gathering.parts[rank]));
  const std::string packed = wire::pack(parts);
  for (const Question& question : gathering.questions) answer(question, packed);
  gatherings_.erase(frame.key);
}

void RendezvousServer::lose(const ClientPtr& client) {
  const int rank = client->rank;
  client->socket.close();
  std::erase(clients_, client);
  if (rank < 0 || client->left) return;
  fail(Error(Cause::rank_died,
             fmt::format("rank {} died ({} closed its connection without leaving)", rank, client->process),
             "read that rank's own output; the kernel log tells whether it was killed for memory", rank));
}

void RendezvousServer::send(Client& client, const Frame& frame) {
  if (!client.socket.open()) return;
  client.output += wire::encode(frame, job_);
  flush(client);
}

void RendezvousServer::flush(Client& client) {
  while (!client.output.empty()) {
    const ssize_t sent = ::send(client.socket.fd(), client.output.data(), client.output.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) return;  // the socket is full, or closed, which reading detects
    client.output.erase(0, static_cast<size_t>(sent));
  }
}

void RendezvousServer::answer(const Question& question, const std::string& value) {
  if (const ClientPtr client = question.client.lock())
    send(*client, {.type = FrameType::value, .id = question.id, .value = value});
}

void RendezvousServer::fail(const Error& error) {
  if (first_failure_) return;
  first_failure_ = std::make_unique<Error>(error);
  const Frame report{.type = FrameType::failure, .value = wire::encode_error(error)};
  // Rank 0 last, because it may end this process, and the server with it, as soon as it has the report.
  for (const ClientPtr& client : clients_)
    if (client->rank > 0) send(*client, report);
  for (const ClientPtr& client : clients_)
    if (client->rank == 0) send(*client, report);
}

void RendezvousServer::watch_heartbeats() {
  const auto now = Clock::now();
  if (now < next_beat_) return;
  next_beat_ = now + std::chrono::duration_cast<Clock::duration>(beat_interval(timeout_seconds_));
  drop_strangers();
  const std::vector<ClientPtr> present = clients_;
  for (const ClientPtr& client : present) {
    if (client->rank < 0) continue;
    if (client->output.empty()) send(*client, {.type = FrameType::beat});
    const std::chrono::duration<double> silent = now - client->last_heard;
    if (!client->left && silent.count() > timeout_seconds_)
      fail(Error(Cause::rank_hung,
                 fmt::format("rank {} is silent for {:.1f} s ({}; its connection is open but it sends no heartbeat)",
                             client->rank, silent.count(), client->process),
                 "look whether that process is stopped or its machine overloaded or unreachable", client->rank));
  }
}

}  // namespace amdahl
