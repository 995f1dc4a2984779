// Runs the cells of a link test and makes their Records.
#include <fmt/format.h>

#include <algorithm>

#include "measure/links/integrity.h"
#include "measure/links/tests.h"
#include "stats/line_fit.h"
#include "stats/percentile.h"

namespace amdahl {
namespace {

Record record_of(const LinkTest& test, const LinkCell& cell, const LinkRun& run) {
  Record record;
  record.kind = "link";
  record.provenance = run.provenance;
  record.axes = {{"test", std::string(test.name)}, {"source", cell.row}, {"destination", cell.column}};
  return record;
}

/// The reason why kernels cannot run a cell: a pair of devices without access; else empty.
std::string kernels_waived(const LinkBench& bench, const LinkCell& cell) {
  for (const Flow& flow : cell.flows)
    for (const Place& place : {flow.source, flow.destination})
      if (flow.mover == Mover::kernel && !place.is_host() && place.device != flow.issuer)
        if (const std::string& why = bench.unreachable(flow.issuer, place.device); !why.empty()) return why;
  return {};
}

void judge(Record& record, const CellResult& result) {
  record.series.push_back({"bandwidth", "GB/s", result.gbps});
  if (result.flow_gbps.size() > 1) record.series.push_back({"flow_bandwidth", "GB/s", result.flow_gbps});
  if (result.faulty_flow < 0) return;
  record.series.push_back({"bad_bytes", "1", {static_cast<double>(result.fault.bad_bytes)}});
  record.status = {Status::Kind::failed,
                   fmt::format("{} bytes differ after the copies, the first at offset {}: {}", result.fault.bad_bytes,
                               result.fault.first_offset, result.fault.kind())};
}

void run_flows(LinkBench& bench, const LinkTest& test, const LinkCell& cell, const LinkRun& run, Record& record) {
  record.axes["bytes"] = static_cast<int64_t>(run.bench.bytes);
  record.axes["mover"] =
      std::string(test.method == LinkMethod::staged ? "engines and host memory" : to_string(cell.flows[0].mover));
  record.axes["flows"] = static_cast<int64_t>(cell.flows.size());
  judge(record, test.method == LinkMethod::staged
                    ? bench.run_staged(cell.flows[0].source.device, cell.flows[0].destination.device, run.bench)
                    : bench.run(cell, run.bench));
}

void run_latency(LinkBench& bench, const LinkCell& cell, const LinkRun& run, Record& record) {
  const Flow& flow = cell.flows[0];
  record.series.push_back(
      {"latency", "us", bench.latency_us(flow.issuer, flow.source, run.latency_accesses, run.bench)});
}

/// The median of each size, and the line fitted through them.
void run_sweep_cell(LinkBench& bench, const LinkCell& cell, const LinkRun& run, Record& record) {
  Series sizes{"bytes", "bytes", {}}, times{"time", "us", {}}, rates{"bandwidth_by_size", "GB/s", {}};
  for (const size_t bytes : run.sweep_bytes) {
    BenchSettings settings = run.bench;
    settings.bytes = bytes;
    const CellResult result = bench.run(cell, settings);
    const double gbps = percentile(result.gbps, 50);
    sizes.samples.push_back(static_cast<double>(bytes));
    rates.samples.push_back(gbps);
    times.samples.push_back(static_cast<double>(bytes) / gbps * 1e-3);
    if (result.faulty_flow >= 0) judge(record, result);
  }
  const AlphaBeta fit = fit_alpha_beta(sizes.samples, times.samples);
  record.axes["mover"] = std::string(to_string(cell.flows[0].mover));
  for (Series* series : {&sizes, &times, &rates}) record.series.push_back(std::move(*series));
  record.series.push_back({"alpha", "us", {fit.alpha_us}});
  // If noise makes larger transfers faster, the fit gives no bandwidth.
  if (fit.beta_gbps > 0) record.series.push_back({"beta", "GB/s", {fit.beta_gbps}});
  record.series.push_back({"worst_ratio", "1", {fit.worst_ratio}});
}

void run_cell(LinkBench& bench, const LinkTest& test, const LinkCell& cell, const LinkRun& run, Record& record) {
  if (const std::string why = kernels_waived(bench, cell); !why.empty()) {
    record.status = {Status::Kind::waived, why};
    return;
  }
  try {
    if (test.method == LinkMethod::latency)
      run_latency(bench, cell, run, record);
    else if (test.method == LinkMethod::sweep)
      run_sweep_cell(bench, cell, run, record);
    else
      run_flows(bench, test, cell, run, record);
  } catch (const Error& error) {
    if (error.cause() != Cause::out_of_memory) throw;
    bench.release();
    record.status = {Status::Kind::failed, error.what()};
  }
}

}  // namespace

LinkScope scope_of(const LinkBench& bench) {
  return {bench.num_devices(), bench.numa_nodes(), [&bench](int device) { return bench.spec(device).numa_node; },
          [&bench](int device) { return bench.label(device); }};
}

int count_pieces(const LinkBench& bench, const LinkTest& test) {
  if (test.method == LinkMethod::integrity) return bench.num_devices() * (bench.num_devices() - 1);
  return static_cast<int>(test.cells(scope_of(bench)).size());
}

void run_link_test(LinkBench& bench, const LinkTest& test, const LinkRun& run,
                   const std::function<void(const Record&)>& sink, Observer& observer) {
  if (test.method == LinkMethod::integrity) {
    if (run.injected_faults > 0) run_integrity_proof(bench, run, run.injected_faults, sink);
    run_integrity(bench, run, sink, observer);
    bench.release();
    return;
  }
  const std::vector<LinkCell> cells = test.cells(scope_of(bench));
  int done = 0;
  for (const LinkCell& cell : cells) {
    if (observer.cancelled())
      throw Error(Cause::interrupted, "stopped by the user; what was measured so far is kept",
                  "fewer `tests` for a shorter run");
    Record record = record_of(test, cell, run);
    run_cell(bench, test, cell, run, record);
    sink(record);
    observer.progress(++done, static_cast<int>(cells.size()), std::string(test.name));
  }
  bench.release();
}

}  // namespace amdahl
