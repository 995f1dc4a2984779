#include "comm/gloo_link.h"

#include <fmt/format.h>
#include <gloo/common/error.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/store.h>
#include <gloo/transport/tcp/device.h>
#include <gloo/transport/unbound_buffer.h>
#include <pthread.h>
#include <signal.h>

#include <algorithm>
#include <array>

#include "base/digest.h"
#include "comm/wire.h"

namespace amdahl {
namespace {

using std::chrono::milliseconds;

/// How long a rank with a broken connection waits for the rendezvous to report the first failure.
constexpr double kVerdictSeconds = 1.0;

milliseconds to_ms(double seconds) { return milliseconds(std::max<int64_t>(1, static_cast<int64_t>(seconds * 1e3))); }

/// Adapts the rendezvous store to Gloo: keys of one group; waits end with the first failure of the world.
class StoreAdapter : public gloo::rendezvous::Store {
 public:
  StoreAdapter(RendezvousStore& store, std::string prefix, double timeout_seconds)
      : store_(store), prefix_(std::move(prefix)), timeout_seconds_(timeout_seconds) {}

  void set(const std::string& key, const std::vector<char>& data) override {
    store_.set(prefix_ + key, std::string(data.begin(), data.end()));
  }
  std::vector<char> get(const std::string& key) override {
    const std::string value = store_.get(prefix_ + key, -1, Deadline::after_seconds(timeout_seconds_));
    return {value.begin(), value.end()};
  }
  void wait(const std::vector<std::string>& keys) override { wait(keys, to_ms(timeout_seconds_)); }
  void wait(const std::vector<std::string>& keys, const milliseconds& timeout) override {
    const Deadline deadline = Deadline::after(timeout);
    for (const std::string& key : keys) store_.get(prefix_ + key, -1, deadline);
  }

 private:
  RendezvousStore& store_;
  const std::string prefix_;
  const double timeout_seconds_;
};

/// Gloo writes to sockets that a dead peer has closed, where SIGPIPE would end the process. Threads that Gloo starts
/// inherit the mask.
void block_sigpipe() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGPIPE);
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
}

/// The tag that matches the two ends of a transfer. It identifies the whole call, so that different calls never
/// exchange data: both wait, and CallCheck finds the mismatch.
uint64_t tag_of(const CollectiveCall& call, int step) {
  const bool paired = is_paired(call);
  const std::array<uint64_t, 7> fields{
      static_cast<uint64_t>(paired ? CollectiveKind::send : call.kind),
      static_cast<uint64_t>(call.seq),
      static_cast<uint64_t>(call.count),
      static_cast<uint64_t>(call.type),
      paired ? 0 : static_cast<uint64_t>(call.op),
      paired ? 0 : static_cast<uint64_t>(call.root + 1),
      static_cast<uint64_t>(step),
  };
  return digest_of({reinterpret_cast<const char*>(fields.data()), sizeof(fields)});
}

}  // namespace

GlooLink::GlooLink(RendezvousStore& store, const std::string& name, RankGroup group, double timeout_seconds)
    : store_(store), name_(name), group_(std::move(group)), rank_(group_.rank), timeout_seconds_(timeout_seconds) {
  sigset_t before;
  pthread_sigmask(SIG_BLOCK, nullptr, &before);
  block_sigpipe();
  try {
    gloo::transport::tcp::attr attributes;
    attributes.hostname = wire::local_address_towards(store.launch().master_address, store.launch().master_port);
    auto device = gloo::transport::tcp::CreateDevice(attributes);
    auto context = std::make_shared<gloo::rendezvous::Context>(rank_, world_size());
    context->setTimeout(to_ms(timeout_seconds));
    StoreAdapter adapter(store, "gloo/" + name + "/", timeout_seconds);
    if (world_size() > 1) context->connectFullMesh(adapter, device);
    context_ = context;
  } catch (const gloo::Exception& error) {
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    if (const auto failure = store.wait_failure(Deadline::after_seconds(kVerdictSeconds))) throw Error(*failure);
    throw Error(
        Cause::peer_unreachable, fmt::format("group '{}' could not connect: {}", name, error.what()),
        "check firewalls between the hosts, and that AMDAHL_MASTER_ADDR is an address that every host can reach");
  } catch (...) {
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    throw;
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  check_ = std::make_unique<CallCheck>(store, name, group_, timeout_seconds);
  listener_ = store.add_listener([this](const Error& error) { abort(error); });
}

GlooLink::~GlooLink() { store_.remove_listener(listener_); }

void GlooLink::abort(const Error& cause) noexcept {
  std::lock_guard lock(mutex_);
  if (cause_) return;
  cause_ = std::make_unique<Error>(cause);
  for (gloo::transport::UnboundBuffer* buffer : running_) {
    buffer->abortWaitRecv();
    buffer->abortWaitSend();
  }
  aborted_.store(true);
  order_.changed().notify();
}

void GlooLink::throw_if_aborted() {
  std::lock_guard lock(mutex_);
  if (cause_) throw Error(*cause_);
}

void GlooLink::await_turn(const CollectiveCall& call, Deadline deadline) {
  const bool ready = order_.changed().wait([&] { return aborted_.load() || order_.turn_of(call.seq); }, deadline);
  throw_if_aborted();
  if (!ready) throw hung_error({group_.own_job_rank()}, call, timeout_seconds());
}

void GlooLink::post(const CollectiveCall& call, int step, const GlooStep& parts, std::vector<Pending>& pending) {
  const uint64_t tag = tag_of(call, step);
  const auto add = [&](const GlooPart& part, bool receiving) {
    if (part.bytes == 0 || part.peer == rank_) return;
    BufferPtr buffer = context_->createUnboundBuffer(part.data, part.bytes);
    {
      std::lock_guard lock(mutex_);
      if (cause_) throw Error(*cause_);
      running_.insert(buffer.get());
    }
    pending.push_back({std::move(buffer), part.peer, receiving});
    if (receiving)
      pending.back().buffer->recv(part.peer, tag);
    else
      pending.back().buffer->send(part.peer, tag);
  };
  for (const GlooPart& part : parts.recvs) add(part, true);
  for (const GlooPart& part : parts.sends) add(part, false);
}

void GlooLink::await(std::vector<Pending>& pending, Deadline deadline) {
  for (Pending& each : pending) {
    // Rounded up, because a wait that ends before the deadline would look like a broken connection.
    const milliseconds left = std::max(milliseconds(0), deadline.remaining()) + milliseconds(1);
    const bool completed = each.receiving ? each.buffer->waitRecv(left) : each.buffer->waitSend(left);
    if (!completed) throw_if_aborted();
    each.done = true;
  }
}

void GlooLink::transfer(const CollectiveCall& call, int step, const GlooStep& parts, Deadline deadline) {
  transfer_all({{call, step, parts}}, deadline);
}

void GlooLink::transfer_all(const std::vector<GlooTransfer>& transfers, Deadline deadline) {
  const CollectiveCall& call = transfers.front().call;  // names all of them in errors
  thread_local bool sigpipe_blocked = false;            // runs on a stream's worker thread
  if (!sigpipe_blocked) {
    block_sigpipe();
    sigpipe_blocked = true;
  }
  const CallCheck::Waiting waiting(*check_, call);
  std::vector<Pending> pending;
  std::unique_ptr<Error> failure;
  try {
    for (const GlooTransfer& each : transfers) post(each.call, each.step, each.parts, pending);
    await(pending, deadline);
  } catch (const Error& error) {
    failure = std::make_unique<Error>(error);
  } catch (const gloo::Exception& error) {
    failure = std::make_unique<Error>(explain(call, pending, deadline.expired(), error.what()));
  }
  {
    std::lock_guard lock(mutex_);
    for (const Pending& each : pending) running_.erase(each.buffer.get());
  }
  if (!failure) return;
  // Gloo may still write to a buffer of this step: closing the pairs ends that before the caller frees the memory.
  context_->closeConnections();
  pending.clear();
  throw Error(*failure);
}

Error GlooLink::explain(const CollectiveCall& call, const std::vector<Pending>& pending, bool at_deadline,
                        const std::string& what) {
  // Gloo closes a pair when a wait on it times out, so that the peer's wait fails shortly before its own deadline. Both
  // publish that they gave up, because a rank that does not is taken for hung.
  try {
    store_.set(gave_up_key(rank_), {});
  } catch (const Error& error) {  // the first failure of the world
    return error;
  }
  if (const auto known = await_verdict(Deadline::after_seconds(at_deadline ? 0 : kVerdictSeconds))) return *known;
  if (const int left = store_.left_rank(group_); left >= 0) {
    Error own = left_error(left, fmt::format("rank {} waits for it in {}", group_.own_job_rank(), call.describe()));
    store_.report_failure(own);
    return own;
  }
  std::vector<int> missing;
  for (const Pending& each : pending) {
    if (each.done) continue;
    try {  // completed transfers return at once; the others throw, because their pairs are closed
      if (each.receiving ? each.buffer->waitRecv(milliseconds(1)) : each.buffer->waitSend(milliseconds(1))) continue;
    } catch (const gloo::Exception&) {
    }
    if (std::find(missing.begin(), missing.end(), each.peer) == missing.end()) missing.push_back(each.peer);
  }
  if (missing.empty()) missing.push_back(rank_);
  const Error own = at_deadline ? explain_deadline(call, missing)
                                : Error(Cause::rank_died,
                                        fmt::format("rank {} broke its connection during {} ({})",
                                                    group_.job_rank(missing[0]), call.describe(), what),
                                        "read that rank's own output", group_.job_rank(missing[0]));
  store_.report_failure(own);
  const auto first = store_.failure();
  return first ? *first : own;
}

/// The first failure of the world; null at the deadline, or once a rank of the group is known to have left.
std::unique_ptr<Error> GlooLink::await_verdict(Deadline deadline) {
  constexpr double kLookSeconds = 0.02;
  do {
    if (auto known = store_.wait_failure(Deadline::after_seconds(
            std::min(kLookSeconds, std::chrono::duration<double>(deadline.remaining()).count()))))
      return known;
  } while (!deadline.expired() && store_.left_rank(group_) < 0);
  return nullptr;
}

/// Every rank that gives up publishes it. A missing rank that has given up too waited for another rank; a missing rank
/// that has not is the one that hangs.
Error GlooLink::explain_deadline(const CollectiveCall& call, const std::vector<int>& missing) {
  std::vector<int> silent;
  try {
    const Deadline deadline = Deadline::after_seconds(kVerdictSeconds);
    for (const int peer : missing)
      if (peer == rank_ || !gave_up_too(peer, deadline)) silent.push_back(peer);
  } catch (const Error& error) {  // the first failure of the world
    return error;
  }
  return hung_error(group_.job_ranks(silent.empty() ? missing : silent), call, timeout_seconds());
}

bool GlooLink::gave_up_too(int peer, Deadline deadline) {
  try {
    store_.get(gave_up_key(peer), group_.job_rank(peer), deadline);
    return true;
  } catch (const Error&) {
    if (store_.failure()) throw;
    return false;
  }
}

}  // namespace amdahl
