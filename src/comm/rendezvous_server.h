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
  };
  struct Gathering {
    std::map<int, std::string> parts;  // by rank
    std::vector<Question> questions;
  };
  using ClientPtr = std::shared_ptr<Client>;

  // All of these run on the server thread.
  void serve();
  void wait_for_events();
  void accept_clients();
  void read_client(const ClientPtr& client);
  void handle(const ClientPtr& client, wire::Frame frame);
  void handle_hello(const ClientPtr& client, const wire::Frame& frame);
  void handle_exchange(const ClientPtr& client, wire::Frame frame);
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
  std::set<int> joined_;
  Clock::time_point next_beat_;
  std::atomic<bool> stopping_{false};
  std::thread thread_;
};

/// How often both sides say that they are alive.
std::chrono::duration<double> beat_interval(double timeout_seconds);

}  // namespace amdahl
