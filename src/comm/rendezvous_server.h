// The server half of the rendezvous: one background thread in rank 0's process that keeps keys, gathers exchanges and
// watches the connections. It decides which failure was the first; every client learns that one.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "comm/wire.h"

namespace amdahl {

class RendezvousServer {
 public:
  /// Listens at once (throws Error{peer_unreachable} if it cannot), serves until destroyed.
  RendezvousServer(const std::string& address, int port, int world_size, double timeout_seconds);
  /// Serves on until all ranks have left or failed, for a few seconds at most.
  ~RendezvousServer();
  /// The port in use: the one asked for, or the one that the system chose for port 0.
  int port() const { return port_; }
  /// Why no rank can join any more (EMFILE, ENFILE), or 0. Rank 0 asks: its own connection may be the one that failed.
  int accept_error() const { return accept_error_.load(); }
  RendezvousServer(const RendezvousServer&) = delete;
  RendezvousServer& operator=(const RendezvousServer&) = delete;

 private:
  using Clock = Deadline::Clock;

  struct Client {
    wire::Socket socket;
    int rank = -1;        // until its hello
    std::string process;  // "process 12 on host h"
    wire::FrameReader input;
    std::string output;  // not yet taken by the socket
    Clock::time_point last_heard;
    bool left = false;
  };
  struct Question {
    std::weak_ptr<Client> client;
    uint64_t id;
    int from = -1;  // the rank that sets the key, if known
  };
  struct Gathering {
    std::vector<int> members;          // ranks of the job, in the order of the answer
    std::map<int, std::string> parts;  // by rank of the job
    std::vector<Question> questions;
  };
  using ClientPtr = std::shared_ptr<Client>;

  // All of these run on the server thread.
  void serve();
  void wait_for_events();
  void accept_clients();
  void read_client(const ClientPtr& client);
  void handle(const ClientPtr& client, const wire::Frame& frame);
  void handle_hello(const ClientPtr& client, const wire::Frame& frame);
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
  Clock::time_point next_beat_;
  std::atomic<bool> stopping_{false};
  std::atomic<int> accept_error_{0};
  std::thread thread_;
};

/// What to throw for a server's accept_error().
Error accept_failure(int port, int error_number);

/// How often both sides say that they are alive.
std::chrono::duration<double> beat_interval(double timeout_seconds);

}  // namespace amdahl
