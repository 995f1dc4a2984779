// Frames and sockets of the rendezvous. All ranks run the same build on the same kind of machine, so there is no byte
// swapping.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "amdahl/error.h"
#include "base/deadline.h"

struct addrinfo;

namespace amdahl::wire {

enum class FrameType : uint8_t {
  // client to server
  hello,     // a = rank, b = world size, value = "process 12 on host h"
  set,       // key, value
  get,       // id, key, a = rank that sets it or -1 (unknown); answered by `value` once the key exists
  exchange,  // id, key, a = rank, b = world size, value; answered by `value` (packed) once all ranks have arrived
  missing,   // id, key of an exchange; answered by `value`: the ranks that have not arrived, "2, 3"
  leave,     // the connection will close on purpose
  // both directions
  failure,  // value = encoded error: to the server a report, from the server the first failure
  beat,     // heartbeat
  // server to client
  value,  // id, value
  left,   // a = rank that has left on purpose
  bye,    // the server ends on purpose
};

struct Frame {
  FrameType type = FrameType::beat;
  uint64_t id = 0;
  int32_t a = 0, b = 0;
  std::string key{}, value{};
};

/// `job`: the token of the job, which every frame carries.
std::string encode(const Frame& frame, uint64_t job = 0);

/// Splits a byte stream into frames of one job. Not thread-safe.
class FrameReader {
 public:
  static constexpr uint32_t kMostBytes = 64u << 20;  // of a key or value; control messages are small

  explicit FrameReader(uint64_t job = 0, uint32_t most_bytes = kMostBytes) : job_(job), most_bytes_(most_bytes) {}
  /// Changes the limit of a key or value.
  void set_most_bytes(uint32_t bytes) { most_bytes_ = bytes; }
  void append(const char* data, size_t bytes) { buffer_.append(data, bytes); }
  /// The next complete frame, if any. Throws Error{data_corrupt} for bytes that are not a frame of this program or are
  /// more than the limit, Error{launcher_mismatch} for a frame of another job.
  std::optional<Frame> next();

 private:
  uint64_t job_;
  uint32_t most_bytes_;
  std::string buffer_;
};

std::string encode_error(const Error& error);
Error decode_error(std::string_view text);
std::string pack(const std::vector<std::string>& parts);
std::vector<std::string> unpack(std::string_view text);

/// Owns a file descriptor.
class Socket {
 public:
  Socket() = default;
  explicit Socket(int fd) : fd_(fd) {}
  Socket(Socket&& other) noexcept : fd_(other.release()) {}
  Socket& operator=(Socket&& other) noexcept;
  ~Socket() { close(); }
  int fd() const { return fd_; }
  bool open() const { return fd_ >= 0; }
  void close() noexcept;
  int release() noexcept;

 private:
  int fd_ = -1;
};

constexpr const char* kPortRemedy =
    "set AMDAHL_MASTER_PORT to a free port for every rank; another program or job, or a second process that believes "
    "to be rank 0, holds this one";

/// Listens on `port`, on the loopback interface when `address` is a loopback address, otherwise on all interfaces.
Socket listen_on(const std::string& address, int port);
int port_of(const Socket& listener);
/// One attempt after the other to connect to an address.
class Connector {
 public:
  /// Throws Error{peer_unreachable} when the address cannot be resolved.
  Connector(const std::string& address, int port);
  /// Not open when it failed. Throws Error{environment_missing} when file descriptors ran out.
  Socket attempt(Deadline deadline);
  int error_number() const { return error_; }  // of the last attempt

 private:
  std::shared_ptr<addrinfo> addresses_;
  std::string what_;
  int error_ = 0;
};
/// An event that wakes poll(). Error{environment_missing} when file descriptors run out.
Socket make_wake_event();
/// The error for a failed socket call: Error{environment_missing} when file descriptors ran out, else
/// Error{peer_unreachable} with `remedy`. `what`: "rank 0 cannot listen on 127.0.0.1:29500".
Error socket_error(const std::string& what, int error_number, const std::string& remedy);
/// Writes all bytes; false when the peer has closed the connection or accepts no bytes for some seconds.
bool send_all(int fd, std::string_view bytes) noexcept;
/// Whether the address is one of this machine.
bool is_own_address(const std::string& address);
/// Numeric address of this machine on the interface with the route to `address`.
std::string local_address_towards(const std::string& address, int port);

}  // namespace amdahl::wire
