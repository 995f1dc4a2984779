// Server of the rendezvous: a background thread of rank 0 that stores keys, collects exchanges and monitors
// connections. It determines the first failure and sends it to every client.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "comm/wire.h"
#include "comm/world.h"

namespace amdahl {

class RendezvousServer {
 public:
  /// Listens at once and serves until destroyed. Throws Error{peer_unreachable} when it cannot listen.
  RendezvousServer(const LaunchContext& launch, double timeout_seconds);
  /// Continues to serve until all ranks have left or failed, at most a few seconds.
  ~RendezvousServer();
  /// Waits until every rank has said hello or has been told of a failure; at most until the deadline.
  void await_hellos(Deadline deadline) const;
  /// The port in use: the first free one of the requested, or for port 0 the one chosen by the system.
  int port() const { return port_; }
  /// Error number when no more ranks can join (EMFILE, ENFILE), or 0. Polled by rank 0, whose own connection may have
  /// failed. Thread-safe.
  int accept_error() const { return accept_error_.load(); }
  RendezvousServer(const RendezvousServer&) = delete;
  RendezvousServer& operator=(const RendezvousServer&) = delete;

 private:
  using Clock = Deadline::Clock;

  struct Client {
    wire::Socket socket;
    int rank = -1;        // -1 until its hello
    std::string process;  // "process 12 on host h"
    wire::FrameReader input;
    std::string output;  // bytes not yet written to the socket
    Clock::time_point connected, last_heard;
    bool left = false;
  };
  struct Question {
    std::weak_ptr<Client> client;
    uint64_t id;
    int from = -1;  // the rank that sets the key, if known
  };
  struct Gathering {
    std::vector<int> members;          // ranks in the job, in the order of the answer
    std::map<int, std::string> parts;  // messages by rank in the job
    std::vector<Question> questions;
  };
  using ClientPtr = std::shared_ptr<Client>;

  // These run on the server thread.
  void serve();
  void wait_for_events();
  void accept_clients();
  void read_client(const ClientPtr& client);
  void handle(const ClientPtr& client, const wire::Frame& frame);
  void handle_hello(const ClientPtr& client, const wire::Frame& frame);
  void refuse(const ClientPtr& client, const Error& error);
  void drop_strangers();
  void handle_exchange(const ClientPtr& client, const wire::Frame& frame);
  void handle_get(const ClientPtr& client, const wire::Frame& frame);
  void handle_leave(const ClientPtr& client);
  void refuse_waits_for_left();
  std::string missing_from(const wire::Frame& frame) const;
  void lose(const ClientPtr& client);
  void send(Client& client, const wire::Frame& frame);
  void flush(Client& client);
  void answer(const Question& question, const std::string& value);
  void fail(const Error& error);
  void watch_heartbeats();
  bool finished() const;

  const int world_size_;
  const uint64_t job_;  // token of all frames
  const double timeout_seconds_;
  wire::Socket listener_;
  const int port_;
  wire::Socket wake_;  // eventfd
  std::vector<ClientPtr> clients_;
  std::map<std::string, std::string> values_;
  std::map<std::string, std::vector<Question>> waiting_;
  std::map<std::string, Gathering> gatherings_;
  std::unique_ptr<Error> first_failure_;
  std::set<int> joined_, left_;
  std::atomic<int> hellos_{0};  // ranks that have joined or were told of the failure
  Clock::time_point next_beat_;
  std::atomic<bool> stopping_{false};
  std::atomic<int> accept_error_{0};
  std::thread thread_;
};

/// Rank 0's server; Error{launcher_mismatch} when its port is held by rank 0 of the same job.
std::unique_ptr<RendezvousServer> make_server(const LaunchContext& launch, double timeout_seconds);

/// The error for a server's accept_error().
Error accept_failure(int port, int error_number);

/// Interval of the heartbeats in both directions.
std::chrono::duration<double> beat_interval(double timeout_seconds);

}  // namespace amdahl
