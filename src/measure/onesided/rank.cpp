#include "measure/onesided/rank.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <exception>
#include <thread>

#include "measure/sampling/rank_results.h"

namespace amdahl {
namespace {

constexpr const char* kOneSided = "one-sided";
constexpr size_t kSlack = 64 << 10;  // of the heap, for small objects and their alignment

size_t heap_bytes(size_t most) { return 2 * most + kSlack; }

char pattern(int rank, size_t i) { return static_cast<char>(i * 31 + i / 251 + static_cast<size_t>(rank) * 7 + 1); }

/// Value `i` of a rank's f32 input of an all-reduce: sums over 16 ranks are exact.
float value_of(int rank, size_t i) { return static_cast<float>((i * 13 + static_cast<size_t>(rank)) % 1021); }

bool has_calls(const OneSidedSettings& settings) {
  return std::any_of(settings.operations.begin(), settings.operations.end(),
                     [](const auto* row) { return row->method != OneSidedOperation::Method::loop; });
}

}  // namespace

OneSidedRank::OneSidedRank(RankContext& rank, const OneSidedSettings& settings)
    : rank_(rank),
      settings_(settings),
      most_bytes_(static_cast<size_t>(settings.sizes.back())),
      heap_(rank.device, rank.communicator, heap_bytes(most_bytes_), settings.timeout_seconds),
      outbox_(heap_.allocate<char>(most_bytes_)),
      inbox_(heap_.allocate<char>(most_bytes_)),
      signals_(heap_.allocate<Signal>(kLoopSignals)),
      packets_(heap_.allocate<char>(kLoopPacketBytes)),
      counter_(heap_.allocate<uint64_t>(1)),
      loops_(make_one_sided_loops(rank.device, heap_.memory())),
      queue_(rank.device, settings.make_transfer, settings.timeout_seconds),
      start_(rank.device.make_event()),
      end_(rank.device.make_event()),
      done_(rank.device.make_event()),
      stream_(rank.device.make_stream("onesided")) {
  if (!has_calls(settings)) return;
  for (const SymmetricAlgorithm algorithm : {SymmetricAlgorithm::automatic, SymmetricAlgorithm::flagged,
                                             SymmetricAlgorithm::one_shot, SymmetricAlgorithm::two_shot})
    add_algorithm(algorithm);
  if (rank.device.backend() != BackendKind::cuda) return;
  try {
    add_algorithm(SymmetricAlgorithm::lines);
  } catch (const Error& error) {  // on every rank alike: links that do not keep lines whole
    if (error.cause() != Cause::environment_missing) throw;
  }
}

void OneSidedRank::add_algorithm(SymmetricAlgorithm algorithm) {
  SymmetricOptions options;
  options.all_reduce = algorithm;
  auto communicator =
      make_symmetric_communicator(rank_.device, rank_.communicator.split(0, rank_.rank, deadline()),
                                  RankGroup::first(rank_.world_size, rank_.rank), settings_.timeout_seconds, options);
  symmetric_[communicator->backend_name()] = std::move(communicator);
}

OneSidedRank::~OneSidedRank() {
  if (std::uncaught_exceptions() == 0) return;
  loops_->abort();
  heap_.abort();
}

std::vector<OneSidedCell> OneSidedRank::cells() const {
  const bool kernels = rank_.device.backend() == BackendKind::cuda;
  std::vector<OneSidedCell> cells;
  for (const OneSidedOperation* row : settings_.operations) {
    std::vector<std::string> transports{kOneSided};
    if (row->method != OneSidedOperation::Method::loop) {
      transports.clear();
      if (settings_.two_sided) transports.push_back(rank_.communicator.backend_name());
      const bool messages = row->method == OneSidedOperation::Method::messages;
      if (messages && kernels && !settings_.two_sided) continue;
      for (const auto& [name, communicator] : symmetric_)  // messages do not depend on the algorithm
        if ((name == "symmetric") == messages && !(messages && kernels)) transports.push_back(name);
    }
    const bool shaped = kernels && row->method == OneSidedOperation::Method::loop;
    for (const int64_t bytes : row->sized ? settings_.sizes : std::vector<int64_t>{8}) {
      if (bytes > row->most_bytes) continue;
      for (const std::string& transport : transports)
        for (const int blocks : shaped && row->sized ? settings_.blocks : std::vector<int>{1})
          for (const int threads : shaped && row->sized ? settings_.threads : std::vector<int>{1})
            cells.push_back({row, transport, bytes, blocks, threads});
    }
  }
  return cells;
}

Communicator& OneSidedRank::communicator_of(const std::string& transport) {
  const auto found = symmetric_.find(transport);
  return found == symmetric_.end() ? rank_.communicator : *found->second;
}

void OneSidedRank::enqueue_messages(const OneSidedCell& cell, int64_t times) {
  Communicator& communicator = communicator_of(cell.transport);
  const auto bytes = static_cast<size_t>(cell.bytes);
  const bool all = cell.operation->method == OneSidedOperation::Method::all_reduce;
  for (int64_t i = 0; i < times; ++i) {
    if (all) {
      communicator.all_reduce(address(outbox_), address(inbox_), std::max<size_t>(bytes / sizeof(float), 1), DType::f32,
                              ReduceOp::sum, *stream_);
    } else if (rank_.rank == 0) {
      communicator.send(address(outbox_), bytes, DType::u8, 1, *stream_);
      communicator.recv(address(inbox_), bytes, DType::u8, 1, *stream_);
    } else if (rank_.rank == 1) {
      communicator.recv(address(inbox_), bytes, DType::u8, 0, *stream_);
      communicator.send(address(outbox_), bytes, DType::u8, 0, *stream_);
    }
  }
}

void OneSidedRank::enqueue(const OneSidedCell& cell, int64_t times) {
  if (cell.operation->method != OneSidedOperation::Method::loop) return enqueue_messages(cell, times);
  LoopCall call;
  call.kind = cell.operation->loop;
  call.outbox = outbox_.range.offset, call.inbox = inbox_.range.offset;
  call.packets = packets_.range.offset;
  call.signals = signals_.range.offset, call.counter = counter_.range.offset;
  call.bytes = static_cast<size_t>(cell.bytes), call.times = times;
  call.first_signal = signals_sent_;
  call.blocks = cell.blocks, call.threads = cell.threads;
  loops_->enqueue(*stream_, call);
  signals_sent_ += static_cast<uint64_t>(times);
}

void OneSidedRank::finish() {
  stream_->record(*done_);
  const Deadline last = Deadline::after_seconds(settings_.timeout_seconds + 5);
  while (!done_->done() && !last.expired()) {
    rank_.communicator.throw_if_failed();
    rank_.device.throw_if_stopped();
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
  stream_->synchronize(deadline());
}

int64_t OneSidedRank::graph_calls(const OneSidedCell& cell) const {
  constexpr int64_t kLargeBytes = 1 << 20;  // a call of more bytes consists of many kernels by some algorithms
  if (rank_.device.backend() != BackendKind::cuda || cell.operation->method != OneSidedOperation::Method::all_reduce)
    return 0;
  return cell.bytes > kLargeBytes ? 2 : 20;
}

double OneSidedRank::replayed_us(const OneSidedCell& cell, int64_t times) {
  const std::string key = fmt::format("{} {}", cell.transport, cell.bytes);
  const int64_t calls = graph_calls(cell);
  if (key != graph_key_) {
    graph_.reset();
    graph_ = rank_.device.capture(*stream_, [&] { enqueue(cell, calls); });
    graph_key_ = key;
    rank_.communicator.barrier(deadline());  // no rank waits in a kernel while another captures
    graph_->launch(*stream_);                // the first launch uploads the graph
    finish();
  }
  const int64_t launches = (times + calls - 1) / calls;
  rank_.communicator.barrier(deadline());
  heap_.barrier(*stream_);
  stream_->stamp(*start_);
  for (int64_t i = 0; i < launches; ++i) graph_->launch(*stream_);
  stream_->stamp(*end_);
  finish();
  return rank_.device.elapsed_us(*start_, *end_) * static_cast<double>(times) / static_cast<double>(launches * calls);
}

double OneSidedRank::time_us(const OneSidedCell& cell, int64_t times) {
  if (graph_calls(cell) > 0) return replayed_us(cell, times);
  queue_.run(*stream_, [&] {
    heap_.barrier(*stream_);  // hosts arrive here at different times
    stream_->stamp(*start_);
    enqueue(cell, times);
    stream_->stamp(*end_);
  });
  finish();
  return rank_.device.elapsed_us(*start_, *end_);
}

double OneSidedRank::count_wrong(const OneSidedCell& cell) {
  const bool sums = cell.operation->method == OneSidedOperation::Method::all_reduce;
  const auto bytes = static_cast<size_t>(sums ? std::max<int64_t>(cell.bytes / 4, 1) * 4 : cell.bytes);
  std::vector<char> host(bytes), got(bytes);
  for (size_t i = 0; i < bytes; ++i) host[i] = pattern(rank_.rank, i);
  if (sums)
    for (size_t i = 0; i < bytes / sizeof(float); ++i) {
      const float value = value_of(rank_.rank, i);
      std::memcpy(host.data() + i * sizeof(float), &value, sizeof(float));
    }
  rank_.device.copy_in(*stream_, address(outbox_), host.data(), bytes);
  rank_.device.fill_zero(*stream_, address(inbox_), bytes);
  heap_.barrier(*stream_);
  enqueue(cell, 1);
  heap_.barrier(*stream_);
  rank_.device.copy_out(*stream_, got.data(), address(inbox_), bytes);
  finish();
  double wrong = 0;
  const bool receives =
      (rank_.rank == 0 && cell.operation->to_rank_zero) || (rank_.rank == 1 && cell.operation->to_rank_one);
  for (size_t i = 0; receives && i < bytes; ++i) wrong += got[i] != pattern(1 - rank_.rank, i);
  for (size_t i = 0; sums && i < bytes / sizeof(float); ++i) {
    float sum = 0, value = 0;
    for (int rank = 0; rank < rank_.world_size; ++rank) sum += value_of(rank, i);
    std::memcpy(&value, got.data() + i * sizeof(float), sizeof(float));
    wrong += value == sum ? 0 : sizeof(float);
  }
  double all = 0;
  for (const double each : exchange_results(rank_.communicator, wrong, deadline())) all += each;
  return all;
}

}  // namespace amdahl
