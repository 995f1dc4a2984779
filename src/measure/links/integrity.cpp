#include "measure/links/integrity.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <random>

namespace amdahl {
namespace {

enum class LinkPath { engine_read, engine_write, kernel_read, kernel_write, host_staged };
constexpr std::array<LinkPath, 5> kMethods{LinkPath::engine_read, LinkPath::engine_write, LinkPath::kernel_read,
                                           LinkPath::kernel_write, LinkPath::host_staged};
std::string_view to_string(LinkPath path) {
  constexpr std::array<std::string_view, 5> names{"engine read", "engine write", "kernel read", "kernel write",
                                                  "host staged"};
  return names[static_cast<size_t>(path)];
}
bool by_kernel(LinkPath path) { return path == LinkPath::kernel_read || path == LinkPath::kernel_write; }
bool by_source(LinkPath path) { return path == LinkPath::engine_write || path == LinkPath::kernel_write; }

/// Offsets of a transfer in its buffers, and its length.
struct TransferShape {
  size_t source_offset, destination_offset, bytes;
};

/// The whole buffer, one byte, odd sizes around a word, a vector and a page, and misaligned offsets.
std::vector<TransferShape> shapes(size_t whole) {
  std::vector<TransferShape> list{{0, 0, whole}};
  for (const size_t bytes : {size_t{1}, size_t{7}, size_t{17}, size_t{4095}, whole / 3 | 1})
    list.push_back({0, 0, bytes});
  for (const auto& [source, destination] : {std::pair<size_t, size_t>{1, 1}, {3, 5}, {8, 4}, {15, 0}})
    list.push_back({source, destination, whole - 64});
  std::erase_if(list, [&](const TransferShape& shape) {
    return shape.bytes == 0 || shape.bytes + std::max(shape.source_offset, shape.destination_offset) > whole;
  });
  return list;
}

struct Fault {
  PatternFault found;
  Pattern pattern;
  TransferShape shape;
};

/// Runs and checks transfers of one ordered pair of devices.
class PairProbe {
 public:
  PairProbe(LinkBench& bench, int source, int destination, const LinkRun& run)
      : bench_(bench),
        run_(run),
        source_(source),
        destination_(destination),
        from_(bench.device(source).make_stream("source")),
        to_(bench.device(destination).make_stream("destination")),
        source_data_(static_cast<char*>(bench.memory(Place::on(source), 0, run.integrity_bytes, source))),
        data_(static_cast<char*>(bench.memory(Place::on(destination), 1, run.integrity_bytes, destination))) {}

  /// Runs the transfer without a check; `data` then holds the received bytes.
  void transfer(LinkPath path, const TransferShape& shape, Pattern pattern, uint64_t seed) {
    char* out = data_ + shape.destination_offset;
    const char* in = source_data_ + shape.source_offset;
    bench_.transfer(source_).write_pattern(*from_, source_data_ + shape.source_offset, shape.bytes, pattern, seed,
                                           false);
    bench_.transfer(destination_).write_pattern(*to_, out, shape.bytes, pattern, seed, true);
    wait(*from_), wait(*to_);
    if (path == LinkPath::host_staged) {
      if (!staged_) staged_.emplace(bench_.end(source_), bench_.end(destination_), "");
      staged_->copy(*from_, *to_, out, in, shape.bytes);
    } else {
      const int issuer = by_source(path) ? source_ : destination_;
      bench_.transfer(issuer).copy(by_source(path) ? *from_ : *to_, out, in, shape.bytes,
                                   by_kernel(path) ? Mover::kernel : Mover::engine, 1);
    }
    wait(*from_), wait(*to_);
  }

  PatternFault check(const TransferShape& shape, Pattern pattern, uint64_t seed) {
    return bench_.transfer(destination_)
        .check_pattern(*to_, data_ + shape.destination_offset, shape.bytes, pattern, seed, deadline());
  }

  char* data() { return data_; }
  Stream& destination_stream() { return *to_; }
  void wait(Stream& stream) { stream.synchronize(deadline()); }

 private:
  Deadline deadline() const { return Deadline::after_seconds(run_.bench.timeout_seconds); }

  LinkBench& bench_;
  const LinkRun& run_;
  int source_, destination_;
  std::optional<StagedCopy> staged_;  // outlives the streams, which may still copy through it when an error unwinds
  std::unique_ptr<Stream> from_, to_;
  char *source_data_, *data_;
};

/// Copies in both directions between two devices, enqueued again before each transfer that they disturb.
class Traffic {
 public:
  Traffic(LinkBench& bench, int one, int other, const LinkRun& run) : bench_(bench), run_(run), ends_{one, other} {
    for (int i = 0; i < 2; ++i) {
      streams_[i] = bench.device(ends_[i]).make_stream("traffic");
      out_[i] = bench.memory(Place::on(ends_[i]), 2, run.integrity_bytes, ends_[i]);
      in_[i] = bench.memory(Place::on(ends_[i]), 3, run.integrity_bytes, ends_[i]);
    }
  }
  ~Traffic() {
    try {
      for (auto& stream : streams_) stream->synchronize(Deadline::after_seconds(run_.bench.timeout_seconds));
    } catch (...) {  // the transfers' own waits report the same error
    }
  }
  Traffic(const Traffic&) = delete;
  Traffic& operator=(const Traffic&) = delete;

  void enqueue() {
    constexpr int kCopies = 8;
    for (int i = 0; i < 2; ++i)
      bench_.transfer(ends_[i]).copy(*streams_[i], in_[1 - i], out_[i], run_.integrity_bytes, Mover::engine, kCopies);
  }

 private:
  LinkBench& bench_;
  const LinkRun& run_;
  int ends_[2];
  std::unique_ptr<Stream> streams_[2];
  void *out_[2], *in_[2];
};

Record pair_record(const LinkBench& bench, int source, int destination, LinkPath path, bool traffic,
                   const LinkRun& run) {
  Record record;
  record.kind = "integrity";
  record.provenance = run.provenance;
  record.axes = {{"source", bench.label(source)},
                 {"destination", bench.label(destination)},
                 {"way", std::string(to_string(path))},
                 {"traffic", traffic}};
  return record;
}

void probe_method(PairProbe& probe, LinkPath path, Traffic* traffic, const LinkRun& run, Record& record) {
  double transfers = 0, bytes = 0, bad = 0;
  std::optional<Fault> first;
  for (const Pattern pattern : kPatterns)
    for (const TransferShape& shape : shapes(run.integrity_bytes)) {
      const uint64_t seed = run.bench.seed + static_cast<uint64_t>(transfers);
      if (traffic) traffic->enqueue();
      probe.transfer(path, shape, pattern, seed);
      const PatternFault fault = probe.check(shape, pattern, seed);
      ++transfers, bytes += static_cast<double>(shape.bytes), bad += static_cast<double>(fault.bad_bytes);
      if (fault.found() && !first) first = Fault{fault, pattern, shape};
    }
  record.series = {{"transfers", "1", {transfers}}, {"bytes", "bytes", {bytes}}, {"bad_bytes", "1", {bad}}};
  if (!first) return;
  record.series.push_back({"first_offset", "bytes", {static_cast<double>(first->found.first_offset)}});
  record.status = {
      Status::Kind::failed,
      fmt::format("{:.0f} of {:.0f} bytes differ; first: pattern {}, {} bytes from offset {}, {}", bad, bytes,
                  to_string(first->pattern), first->found.bad_bytes, first->found.first_offset, first->found.kind())};
}

}  // namespace

void run_integrity(LinkBench& bench, const LinkRun& run, const std::function<void(const Record&)>& sink,
                   Observer& observer) {
  const int devices = bench.num_devices();
  int done = 0;
  for (int source = 0; source < devices; ++source)
    for (int destination = 0; destination < devices; ++destination) {
      if (source == destination) continue;
      for (const bool busy : {false, true}) {
        if (busy && !run.traffic) continue;
        PairProbe probe(bench, source, destination, run);
        std::optional<Traffic> traffic;
        if (busy) traffic.emplace(bench, source, destination, run);
        for (const LinkPath path : kMethods) {
          if (observer.cancelled())
            throw Error(Cause::interrupted, "stopped by the user; what was measured so far is kept",
                        "fewer `tests` for a shorter run");
          Record record = pair_record(bench, source, destination, path, busy, run);
          const std::string& why =
              by_source(path) ? bench.unreachable(source, destination) : bench.unreachable(destination, source);
          if (by_kernel(path) && !why.empty())
            record.status = {Status::Kind::waived, why};
          else
            probe_method(probe, path, traffic ? &*traffic : nullptr, run, record);
          sink(record);
        }
      }
      observer.progress(++done, devices * (devices - 1), "integrity");
    }
}

void run_integrity_proof(LinkBench& bench, const LinkRun& run, int count,
                         const std::function<void(const Record&)>& sink) {
  const int source = 0, destination = bench.num_devices() > 1 ? 1 : 0;
  std::mt19937_64 random(run.bench.seed);
  const auto below = [&](uint64_t limit) { return random() % limit; };
  PairProbe probe(bench, source, destination, run);
  const TransferShape whole{0, 0, run.integrity_bytes};
  int found = 0;
  std::string first_missed;
  for (int i = 0; i < count;) {
    const Pattern pattern = i % 2 == 0 ? Pattern::random : Pattern::address;
    const uint64_t seed = random();
    probe.transfer(LinkPath::engine_write, whole, pattern, seed);
    // Damage: kind 0 flips one bit, 1 zeroes up to 64 bytes, and 2 restores their old content.
    const uint64_t kind = below(3), offset = below(whole.bytes - 64), length = kind == 0 ? 1 : 1 + below(64);
    std::vector<uint8_t> bytes(length);
    PatternFault expected;
    for (size_t at = 0; at < length; ++at) {
      const uint8_t wanted = pattern_byte(pattern, seed, offset + at);
      bytes[at] = kind == 0   ? static_cast<uint8_t>(wanted ^ (1u << below(8)))
                  : kind == 1 ? uint8_t{0}
                              : static_cast<uint8_t>(~wanted);
      judge_byte(expected, offset + at, wanted, bytes[at]);
    }
    if (!expected.found()) continue;  // the damage changed nothing
    ++i;
    bench.device(destination).copy_in(probe.destination_stream(), probe.data() + offset, bytes.data(), length);
    probe.wait(probe.destination_stream());
    const PatternFault fault = probe.check(whole, pattern, seed);
    const bool right = fault.bad_bytes == expected.bad_bytes && fault.first_offset == expected.first_offset &&
                       fault.kind() == expected.kind();
    found += right;
    if (!right && first_missed.empty())
      first_missed = fmt::format("damage {} of kind {} at offset {}", i - 1, kind, offset);
  }
  Record record;
  record.kind = "integrity-proof";
  record.provenance = run.provenance;
  record.axes = {{"source", bench.label(source)}, {"destination", bench.label(destination)}};
  record.series = {{"injected", "1", {static_cast<double>(count)}}, {"found", "1", {static_cast<double>(found)}}};
  if (found != count) record.status = {Status::Kind::failed, "missed: " + first_missed};
  sink(record);
}

}  // namespace amdahl
