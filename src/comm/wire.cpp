#include "comm/wire.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <utility>

namespace amdahl::wire {
namespace {

constexpr uint32_t kMagic = 0x414d4433;  // "AMD3": changes with the frame format

struct Header {
  uint32_t magic = kMagic;
  uint32_t type = 0;
  uint64_t job = 0;
  uint64_t id = 0;
  int32_t a = 0, b = 0;
  uint32_t key_bytes = 0, value_bytes = 0;
};

using Addresses = std::shared_ptr<addrinfo>;

Addresses resolve(const std::string& address, int port) {
  addrinfo hints{}, *list = nullptr;
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  if (const int code = getaddrinfo(address.c_str(), std::to_string(port).c_str(), &hints, &list); code != 0)
    throw Error(Cause::peer_unreachable, fmt::format("host '{}' of rank 0: {}", address, gai_strerror(code)),
                "set AMDAHL_MASTER_ADDR to a name or address that this machine can resolve");
  return {list, freeaddrinfo};
}

bool is_loopback(const sockaddr* address) {
  if (address->sa_family == AF_INET)
    return (ntohl(reinterpret_cast<const sockaddr_in*>(address)->sin_addr.s_addr) >> 24) == 127;
  return IN6_IS_ADDR_LOOPBACK(&reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr);
}

void use_any_interface(sockaddr* address) {
  if (address->sa_family == AF_INET)
    reinterpret_cast<sockaddr_in*>(address)->sin_addr.s_addr = htonl(INADDR_ANY);
  else
    reinterpret_cast<sockaddr_in6*>(address)->sin6_addr = in6addr_any;
}

void set_option(int fd, int level, int option, int value) { setsockopt(fd, level, option, &value, sizeof value); }

}  // namespace

std::string encode(const Frame& frame, uint64_t job) {
  Header header;
  header.job = job;
  header.type = static_cast<uint32_t>(frame.type);
  header.id = frame.id;
  header.a = frame.a;
  header.b = frame.b;
  header.key_bytes = static_cast<uint32_t>(frame.key.size());
  header.value_bytes = static_cast<uint32_t>(frame.value.size());
  std::string bytes(sizeof header, '\0');
  std::memcpy(bytes.data(), &header, sizeof header);
  return bytes + frame.key + frame.value;
}

std::optional<Frame> FrameReader::next() {
  Header header;
  // A stranger's few bytes are recognised by the first ones, not waited upon.
  const size_t seen = std::min(buffer_.size(), sizeof header.magic);
  const bool starts_well = std::memcmp(&header.magic, buffer_.data(), seen) == 0;
  if (starts_well && buffer_.size() < sizeof header) return std::nullopt;
  if (starts_well) std::memcpy(&header, buffer_.data(), sizeof header);
  const bool known = starts_well && header.type <= static_cast<uint32_t>(FrameType::bye);
  if (known && header.job != job_)
    throw Error(Cause::launcher_mismatch, "the rendezvous connection carries frames of another job");
  if (!known || header.key_bytes > most_bytes_ || header.value_bytes > most_bytes_)
    throw Error(Cause::data_corrupt, "the rendezvous connection carries something else than amdahl's frames");
  const size_t total = sizeof header + header.key_bytes + header.value_bytes;
  if (buffer_.size() < total) return std::nullopt;
  Frame frame{static_cast<FrameType>(header.type),
              header.id,
              header.a,
              header.b,
              buffer_.substr(sizeof header, header.key_bytes),
              buffer_.substr(sizeof header + header.key_bytes, header.value_bytes)};
  buffer_.erase(0, total);
  return frame;
}

std::string pack(const std::vector<std::string>& parts) {
  std::string text;
  for (const std::string& part : parts) {
    const auto bytes = static_cast<uint32_t>(part.size());
    text.append(reinterpret_cast<const char*>(&bytes), sizeof bytes);
    text += part;
  }
  return text;
}

std::vector<std::string> unpack(std::string_view text) {
  std::vector<std::string> parts;
  uint32_t bytes = 0;
  while (text.size() >= sizeof bytes) {
    std::memcpy(&bytes, text.data(), sizeof bytes);
    text.remove_prefix(sizeof bytes);
    parts.emplace_back(text.substr(0, bytes));
    text.remove_prefix(std::min<size_t>(bytes, text.size()));
  }
  return parts;
}

std::string encode_error(const Error& error) {
  return pack({std::string(to_string(error.cause())), error.what(), error.remedy(), std::to_string(error.rank())});
}

Error decode_error(std::string_view text) {
  const std::vector<std::string> parts = unpack(text);
  if (parts.size() != 4) return Error(Cause::internal, "a failure report that cannot be read");
  Cause cause = Cause::internal;
  for (int index = 0; index <= static_cast<int>(Cause::internal); ++index)
    if (to_string(static_cast<Cause>(index)) == parts[0]) cause = static_cast<Cause>(index);
  return Error(cause, parts[1], parts[2], std::atoi(parts[3].c_str()));
}

Socket& Socket::operator=(Socket&& other) noexcept {
  if (this != &other) {
    close();
    fd_ = other.release();
  }
  return *this;
}

void Socket::close() noexcept {
  if (fd_ >= 0) ::close(fd_);
  fd_ = -1;
}

int Socket::release() noexcept { return std::exchange(fd_, -1); }

Socket listen_on(const std::string& address, int port) {
  const Addresses list = resolve(address, port);
  Socket socket(::socket(list->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const std::string what = fmt::format("rank 0 cannot listen on {}:{}", address, port);
  if (!socket.open()) throw socket_error(what, errno, {});
  set_option(socket.fd(), SOL_SOCKET, SO_REUSEADDR, 1);
  if (!is_loopback(list->ai_addr)) use_any_interface(list->ai_addr);
  if (bind(socket.fd(), list->ai_addr, list->ai_addrlen) != 0 || listen(socket.fd(), 1024) != 0)
    throw socket_error(what, errno, kPortRemedy);
  return socket;
}

int port_of(const Socket& listener) {
  sockaddr_storage own{};
  socklen_t bytes = sizeof own;
  getsockname(listener.fd(), reinterpret_cast<sockaddr*>(&own), &bytes);
  return ntohs(own.ss_family == AF_INET ? reinterpret_cast<sockaddr_in&>(own).sin_port
                                        : reinterpret_cast<sockaddr_in6&>(own).sin6_port);
}

Error socket_error(const std::string& what, int error_number, const std::string& remedy) {
  const std::string text = fmt::format("{}: {}", what, std::strerror(error_number));
  if (error_number == EMFILE || error_number == ENFILE)
    return Error(Cause::environment_missing, text, "a higher limit of open files, for example ulimit -n 1024");
  return Error(Cause::peer_unreachable, text, remedy);
}

Socket make_wake_event() {
  Socket event(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!event.open()) throw socket_error("the rendezvous gets no event", errno, {});
  return event;
}

Connector::Connector(const std::string& address, int port)
    : addresses_(resolve(address, port)), what_(fmt::format("rank 0 at {}:{} could not be reached", address, port)) {}

Socket Connector::attempt(Deadline deadline) {
  for (const addrinfo* each = addresses_.get(); each; each = each->ai_next) {
    Socket socket(::socket(each->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
    error_ = errno;
    if (!socket.open() && (error_ == EMFILE || error_ == ENFILE)) throw socket_error(what_, error_, {});
    if (!socket.open()) continue;
    const auto left = deadline.remaining().count();
    const timeval limit{static_cast<time_t>(left / 1000), static_cast<suseconds_t>(left % 1000 * 1000 + 1000)};
    setsockopt(socket.fd(), SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);  // also bounds connect()
    if (connect(socket.fd(), each->ai_addr, each->ai_addrlen) == 0) {
      const timeval send_limit{5, 0};
      setsockopt(socket.fd(), SOL_SOCKET, SO_SNDTIMEO, &send_limit, sizeof send_limit);
      set_option(socket.fd(), IPPROTO_TCP, TCP_NODELAY, 1);
      return socket;
    }
    error_ = errno;
  }
  return {};
}

bool send_all(int fd, std::string_view bytes) noexcept {
  while (!bytes.empty()) {
    const ssize_t sent = send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) return false;
    bytes.remove_prefix(static_cast<size_t>(sent));
  }
  return true;
}

bool is_own_address(const std::string& address) try {
  const Addresses list = resolve(address, 0);
  const Socket socket(::socket(list->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  return socket.open() && bind(socket.fd(), list->ai_addr, list->ai_addrlen) == 0;
} catch (const Error&) {
  return false;
}

std::string local_address_towards(const std::string& address, int port) {
  const Addresses list = resolve(address, port);
  sockaddr_storage own{};
  socklen_t bytes = sizeof own;
  // Connecting a datagram socket sends nothing; it only queries the routing table.
  const Socket socket(::socket(list->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  char text[NI_MAXHOST] = {};
  if (!socket.open() || connect(socket.fd(), list->ai_addr, list->ai_addrlen) != 0 ||
      getsockname(socket.fd(), reinterpret_cast<sockaddr*>(&own), &bytes) != 0 ||
      getnameinfo(reinterpret_cast<sockaddr*>(&own), bytes, text, sizeof text, nullptr, 0, NI_NUMERICHOST) != 0)
    throw Error(Cause::peer_unreachable, fmt::format("no network interface leads to {}", address));
  return text;
}

}  // namespace amdahl::wire
