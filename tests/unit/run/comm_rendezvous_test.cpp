#include <gtest/gtest.h>
#include <sys/socket.h>

#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <limits>
#include <mutex>
#include <thread>

#include "comm/greeting.h"
#include "comm/wire.h"
#include "comm/world.h"
#include "errors.h"
#include "waits.h"

namespace amdahl {
namespace {

/// A connection to a port at which someone will listen soon.
wire::Socket connect_to(int port) {
  wire::Connector connector("127.0.0.1", port);
  const Deadline deadline = soon();
  wire::Socket socket;
  while (!socket.open() && !deadline.expired()) {
    socket = connector.attempt(deadline);
    if (!socket.open()) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return socket;
}

int free_port() { return wire::port_of(wire::listen_on("127.0.0.1", 0)); }

/// Runs fn(store) on a thread per rank of `world`, each with its own connection, and leaves. `skip` never shows up.
void run_world(int world, double timeout, const std::function<void(int, RendezvousStore&)>& fn, int skip = -1) {
  const int port = free_port();
  run_rank_threads(
      world,
      [&](int rank) {
        if (rank == skip) return;
        LaunchContext launch;
        launch.rank = rank;
        launch.world_size = world;
        launch.master_port = port;
        const auto store = make_rendezvous(launch, timeout);
        fn(rank, *store);
        store->leave();
      },
      nullptr);
}

TEST(Wire, FramesAndErrorsSurviveTheTrip) {
  wire::FrameReader reader;
  const std::string bytes = wire::encode({.type = wire::FrameType::set, .id = 7, .a = -1, .key = "k", .value = "v\0w"});
  for (const char c : bytes + bytes) reader.append(&c, 1);
  for (int copy = 0; copy < 2; ++copy) {
    const auto frame = reader.next();
    ASSERT_TRUE(frame.has_value());
    EXPECT_EQ(frame->id, 7u);
    EXPECT_EQ(frame->key, "k");
  }
  EXPECT_FALSE(reader.next().has_value());
  const std::string stranger = "GET / HTTP/1.1\r\nHost: localhost\r\nAccept: */*\r\n\r\n";
  reader.append(stranger.data(), stranger.size());
  EXPECT_THROW(reader.next(), Error);
  const Error error = wire::decode_error(wire::encode_error(Error(Cause::non_finite, "a\nb", "", 3)));
  EXPECT_EQ(error.cause(), Cause::non_finite);
  EXPECT_STREQ(error.what(), "a\nb");
  EXPECT_EQ(error.rank(), 3);
  EXPECT_EQ(wire::decode_error("rubbish").cause(), Cause::internal);
}

TEST(Rendezvous, KeysAndExchanges) {
  for (const int world : {1, 2, 5})
    run_world(world, 10, [&](int rank, RendezvousStore& store) {
      store.set("from/" + std::to_string(rank), std::string(static_cast<size_t>(rank) * 50'000, 'x'));
      const int next = (rank + 1) % world;
      EXPECT_EQ(store.get("from/" + std::to_string(next), next, soon()).size(), static_cast<size_t>(next) * 50'000);
      for (int round = 0; round < 20; ++round) {
        const auto all = store.exchange("round" + std::to_string(round), RankGroup::first(world, rank),
                                        std::to_string(rank), soon());
        ASSERT_EQ(all.size(), static_cast<size_t>(world));
        EXPECT_EQ(all.back(), std::to_string(world - 1));
      }
    });
}

TEST(Rendezvous, AMissingKeyOrRankIsNamedAtTheDeadline) {
  run_world(2, 10, [](int rank, RendezvousStore& store) {
    const Error error = error_of([&] { store.get("never", -1, Deadline::after_seconds(0.1)); });
    EXPECT_EQ(error.cause(), Cause::rank_hung);
    EXPECT_NE(std::string(error.what()).find("'never'"), std::string::npos);
    if (rank == 1) {  // waits for the failure that rank 0 finds
      ASSERT_NE(store.wait_failure(soon()), nullptr);
      return;
    }
    const Error hung =
        error_of([&] { store.exchange("epoch", RankGroup::first(2, rank), {}, Deadline::after_seconds(0.1)); });
    EXPECT_EQ(hung.cause(), Cause::rank_hung);
    EXPECT_EQ(std::string(hung.what()).rfind("rank 1 did not reach exchange 'epoch'", 0), 0u) << hung.what();
  });
}

TEST(Rendezvous, ARankThatNeverJoinsIsNamed) {
  const Error error = error_of([] {
    run_world(
        3, 0.5, [](int, RendezvousStore&) {}, 2);
  });
  EXPECT_EQ(error.cause(), Cause::peer_unreachable);
  EXPECT_EQ(std::string(error.what()).rfind("rank 2 did not reach", 0), 0u) << error.what();
}

TEST(Rendezvous, TheFirstReportReachesEveryoneAndEndsTheirWaits) {
  run_world(3, 10, [](int rank, RendezvousStore& store) {
    std::atomic<int> heard{0};
    const size_t id = store.add_listener([&](const Error& error) { heard += error.cause() == Cause::non_finite; });
    if (rank == 1) {
      store.report_failure(Error(Cause::non_finite, "loss", {}, 1));
      store.report_failure(Error(Cause::internal, "a consequence", {}, 1));
    }
    const Error error = error_of([&] { store.get("never", -1, soon()); });
    EXPECT_EQ(error.cause(), Cause::non_finite);
    EXPECT_EQ(error.rank(), 1);
    // Waits end as soon as the failure is known; the watcher calls the listeners a moment later.
    for (const Deadline limit = soon(); heard == 0 && !limit.expired();)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    store.remove_listener(id);
    EXPECT_GE(heard, 1);
  });
}

TEST(Rendezvous, ARankThatGoesWithoutLeavingHasDied) {
  for (const int victim : {0, 1, 2}) {
    const int port = free_port();
    std::atomic<int> told{0};
    std::vector<std::thread> ranks;
    for (int rank = 0; rank < 3; ++rank)
      ranks.emplace_back([&, rank] {
        LaunchContext launch;
        launch.rank = rank;
        launch.world_size = 3;
        launch.master_port = port;
        auto store = make_rendezvous(launch, 10);
        if (rank == victim) return;
        const auto start = Deadline::Clock::now();
        const Error error = error_of([&] { store->get("never", -1, soon()); });
        EXPECT_EQ(error.cause(), Cause::rank_died);
        EXPECT_EQ(error.rank(), victim) << error.what();
        EXPECT_LT(Deadline::Clock::now() - start, std::chrono::seconds(2));
        ++told;
        store->leave();
      });
    for (std::thread& rank : ranks) rank.join();
    EXPECT_EQ(told, 2);
  }
}

TEST(Rendezvous, TheHandlerIsCalledWhenARankDoesNotLeaveInTime) {
  run_world(2, 10, [](int rank, RendezvousStore& store) {
    std::mutex mutex;
    std::condition_variable called;
    bool done = false;
    store.set_failure_handler([&](const Error& error) {
      std::lock_guard lock(mutex);
      EXPECT_EQ(error.cause(), Cause::interrupted);
      done = true;
      called.notify_all();
    });
    if (rank == 0) store.report_failure(Error(Cause::interrupted, "Ctrl-C", {}, 0));
    const auto start = Deadline::Clock::now();
    std::unique_lock lock(mutex);
    EXPECT_TRUE(called.wait_for(lock, std::chrono::seconds(5), [&] { return done; }));
    EXPECT_GE(Deadline::Clock::now() - start, std::chrono::milliseconds(900));
    EXPECT_LE(Deadline::Clock::now() - start, std::chrono::milliseconds(2500));
  });
}

TEST(Rendezvous, LeavingIsNoDeath) {
  run_world(3, 10, [](int rank, RendezvousStore& store) {
    if (rank == 2) return;  // leaves at once
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    EXPECT_EQ(store.failure(), nullptr);
  });
}

TEST(Rendezvous, AStrangerOnThePortDoesNoHarm) {
  const int port = free_port();
  std::thread stranger([port] {
    const wire::Socket socket = connect_to(port);
    wire::send_all(socket.fd(), "GET / HTTP/1.1\r\nHost: localhost\r\nAccept: */*\r\n\r\n");
  });
  LaunchContext launch;
  launch.master_port = port;
  const auto store = make_rendezvous(launch, 10);
  stranger.join();
  store->set("key", "value");
  EXPECT_EQ(store->get("key", -1, soon()), "value");
  store->leave();
}

/// What arrives at a connection until it is closed, or for three seconds.
std::string heard_from(const wire::Socket& socket) {
  std::string bytes;
  char buffer[4096];
  const Deadline deadline = Deadline::after_seconds(3);
  while (!deadline.expired()) {
    const ssize_t got = recv(socket.fd(), buffer, sizeof buffer, MSG_DONTWAIT);
    if (got == 0 || (got < 0 && errno == ECONNRESET)) return bytes + "|closed";
    if (got > 0) bytes.append(buffer, static_cast<size_t>(got));
    if (got < 0) std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return bytes;
}

/// Frames that only a rank may send, in a state of the job in which the sender is none.
std::vector<wire::Frame> frames_of_strangers() {
  using wire::FrameType;
  std::vector<wire::Frame> frames;
  const std::string group = wire::pack({"", "x"});
  for (const auto type : {FrameType::set, FrameType::get, FrameType::exchange, FrameType::missing, FrameType::leave,
                          FrameType::failure, FrameType::beat, FrameType::value, FrameType::left, FrameType::bye})
    for (const int world : {1, 2, std::numeric_limits<int>::max(), -1})
      frames.push_back({.type = type, .id = 1, .a = 0, .b = world, .key = "k", .value = group});
  return frames;
}

TEST(Rendezvous, FramesOfStrangersAreRefusedAndTheJobGoesOn) {
  run_world(2, 10, [&](int rank, RendezvousStore& store) {
    const auto everyone = RankGroup::first(2, rank);
    if (rank == 1) {
      const LaunchContext& launch = store.launch();
      LaunchContext other = launch;
      other.job = "another";
      const auto is_refused = [&](const std::string& bytes) {
        const wire::Socket socket = connect_to(launch.master_port);
        wire::send_all(socket.fd(), bytes);
        const std::string heard = heard_from(socket);
        EXPECT_TRUE(heard.ends_with("|closed")) << heard.size();
        return heard;
      };
      for (const wire::Frame& frame : frames_of_strangers())  // of this job, but no hello came before
        is_refused(wire::encode(frame, token_of(launch)));
      for (const int said : {0, 1, 2, 7, -1}) {  // of another job, as when its survivors look for each other
        const wire::Frame hello{.type = wire::FrameType::hello, .a = said, .b = 2, .value = "stranger"};
        is_refused(wire::encode(hello, token_of(other)));
      }
      // Ranks that are there already, or of another size: the answer says so.
      for (const auto& [said, size] : {std::pair{0, 2}, {1, 2}, {1, 3}, {-1, 2}}) {
        const wire::Frame hello{.type = wire::FrameType::hello, .a = said, .b = size, .value = "a \x1b[31m process"};
        const std::string heard = is_refused(wire::encode(hello, token_of(launch)));
        EXPECT_NE(heard.find("launcher-mismatch"), std::string::npos);
        EXPECT_EQ(heard.find("\x1b[31m"), std::string::npos);  // a digest may have the first byte
      }
      // A frame longer than any hello is not waited for.
      wire::Frame hello{.type = wire::FrameType::hello, .a = 1, .b = 2, .value = std::string(2000, 'x')};
      is_refused(wire::encode(hello, token_of(launch)));
    }
    EXPECT_EQ(store.exchange("after", everyone, std::to_string(rank), soon()).size(), 2u);
    EXPECT_EQ(store.failure(), nullptr);
  });
}

TEST(Rendezvous, ManyConnectionsThatSayNothingKeepNobodyOut) {
  const int port = free_port();
  std::vector<wire::Socket> silent;
  std::thread first([port] {
    LaunchContext launch;
    launch.world_size = 2;
    launch.master_port = port;
    const auto store = make_rendezvous(launch, 10);
    store->exchange("done", RankGroup::first(2, 0), {}, soon());
    store->leave();
  });
  for (int i = 0; i < 200; ++i) silent.push_back(connect_to(port));
  LaunchContext launch;
  launch.rank = 1;
  launch.world_size = 2;
  launch.master_port = port;
  const auto store = make_rendezvous(launch, 10);
  store->exchange("done", RankGroup::first(2, 1), {}, soon());
  store->leave();
  first.join();
}

TEST(Rendezvous, AJobMeetsAtTheFirstFreePortAmongOthers) {
  // Two ports are another job's and a silent program's.
  int base = 0;
  wire::Socket silent;
  for (int tries = 0; tries < 50 && !silent.open(); ++tries) {
    base = free_port();
    try {
      silent = wire::listen_on("127.0.0.1", base + 1);
    } catch (const Error&) {
    }
  }
  LaunchContext innocent;
  innocent.master_port = base;
  const auto other = make_rendezvous(innocent, 10);
  run_rank_threads(
      3,
      [&](int rank) {
        LaunchContext launch;
        launch.rank = rank;
        launch.world_size = 3;
        launch.master_port = base;
        launch.last_port = base + 8;
        launch.job = "drawn by rank 0";
        const auto store = make_rendezvous(launch, 10);
        EXPECT_EQ(store->exchange("here", RankGroup::first(3, rank), {}, soon()).size(), 3u);
        store->leave();
      },
      nullptr);
  EXPECT_EQ(other->failure(), nullptr);
  other->leave();
}

TEST(Rendezvous, TheReasonOfAnEarlyEndReachesRanksThatComeLater) {
  for (const int early : {0, 1}) {
    LaunchContext launch;
    launch.world_size = 2;
    launch.local_world_size = 1;  // on two hosts: processes do not tell whether the other one lives
    launch.master_port = free_port();
    LaunchContext other = launch;
    launch.rank = early;
    other.rank = 1 - early;
    std::thread ends([&] { tell_early_end(launch, Error(Cause::data_corrupt, "bad rows", {})); });
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    const Error error = error_of([&] { make_rendezvous(other, 10); });
    EXPECT_EQ(error.cause(), Cause::data_corrupt) << error.what();
    EXPECT_EQ(error.rank(), early);
    ends.join();
  }
}

TEST(Rendezvous, ATakenPortIsSaid) {
  const wire::Socket taken = wire::listen_on("127.0.0.1", 0);
  LaunchContext launch;
  launch.master_port = wire::port_of(taken);
  const Error error = error_of([&] { make_rendezvous(launch, 1); });
  EXPECT_EQ(error.cause(), Cause::peer_unreachable);
  EXPECT_NE(error.remedy().find("AMDAHL_MASTER_PORT"), std::string::npos);
}

}  // namespace
}  // namespace amdahl
