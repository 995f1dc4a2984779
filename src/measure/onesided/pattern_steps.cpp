// The steps of the patterns.

#include <algorithm>
#include <cmath>
#include <random>

#include "measure/onesided/pattern_rank.h"
#include "measure/onesided/patterns.h"
#include "measure/sampling/rank_results.h"
#include "symmetric/structures/distributed_tensor.h"
#include "symmetric/structures/gradient_buffer.h"
#include "symmetric/symmetric_collectives.h"

namespace amdahl {
namespace {

namespace sym = symmetric_cpu;
using Values = std::vector<double>;

/// Gradients of a small model: one all-reduce per step.
double gradient_sync(PatternRank& r, bool one_sided, int steps, Values& result, Values&) {
  constexpr size_t kFloats = 4096;
  std::unique_ptr<Communicator> symmetric;
  if (one_sided)
    symmetric = make_symmetric_communicator(r.context.device, r.communicator().split(0, r.rank(), r.deadline()),
                                            RankGroup::first(r.world(), r.rank()), r.timeout, {});
  Communicator& communicator = one_sided ? *symmetric : r.communicator();
  std::vector<float> gradient(kFloats, static_cast<float>(r.rank() + 1)), sum(kFloats);
  const double us = r.timed_calls([&] {
    for (int step = 0; step < steps; ++step)
      communicator.all_reduce(gradient.data(), sum.data(), kFloats, DType::f32, ReduceOp::sum, *r.stream);
  });
  result = {sum.front(), sum.back()};
  return us;
}

/// Rows that a rank reads in a step: the same in both versions.
std::vector<size_t> rows_of_step(int rank, int step, size_t rows, size_t count) {
  std::mt19937 random(static_cast<unsigned>(rank * 100'003 + step));
  std::vector<size_t> indices(count);
  for (size_t& index : indices) index = random() % rows;
  return indices;
}

using Rows = DistributedTensor<float>;

/// A table of rows over all ranks, with known contents.
Rows filled_table(PatternRank& r, const SymmetricArray<char>& memory, const Rows::Shape& shape) {
  Rows table(r.team, memory.range.offset, shape);
  for (size_t row = 0; row < shape.rows; ++row)
    if (table.owner(row) == r.rank())
      for (size_t column = 0; column < shape.columns; ++column)
        table.row(row)[column] = static_cast<float>(row % 97) + static_cast<float>(column % 5);
  r.heap.barrier(*r.stream);
  r.stream->synchronize(r.deadline());
  return table;
}

/// Reads rows by two exchanges: every rank asks every other one, and answers what it is asked.
struct RowExchange {
  RowExchange(PatternRank& rank, const Rows& rows, size_t count_, size_t columns_)
      : r(rank),
        table(rows),
        count(count_),
        columns(columns_),
        asked(static_cast<size_t>(rank.world()) * count),
        asks(asked.size()),
        answers(asked.size() * columns),
        got(answers.size()) {}

  /// Enqueues a step; the rows will be in `to`, in the order in which they were wanted.
  void enqueue(const std::function<std::vector<size_t>()>& wanted, float* to) {
    as_cpu(*r.stream).enqueue([this, wanted] {
      std::fill(asked.begin(), asked.end(), -1);
      now = wanted();
      for (size_t i = 0; i < count; ++i) asked[place(i)] = static_cast<int64_t>(now[i]);
    });
    r.communicator().all_to_all(asked.data(), asks.data(), count, DType::i64, *r.stream);
    as_cpu(*r.stream).enqueue([this] {
      for (size_t i = 0; i < asks.size(); ++i)
        if (asks[i] >= 0) std::copy_n(table.row(static_cast<size_t>(asks[i])), columns, answers.data() + i * columns);
    });
    r.communicator().all_to_all(answers.data(), got.data(), count * columns, DType::f32, *r.stream);
    as_cpu(*r.stream).enqueue([this, to] {
      for (size_t i = 0; i < count; ++i) std::copy_n(got.data() + place(i) * columns, columns, to + i * columns);
    });
  }

 private:
  size_t place(size_t i) const { return static_cast<size_t>(table.owner(now[i])) * count + i; }

  PatternRank& r;
  const Rows& table;
  const size_t count, columns;
  std::vector<int64_t> asked, asks;
  std::vector<float> answers, got;
  std::vector<size_t> now;
};

/// What a step computes from its rows.
double consume(const std::vector<float>& rows) {
  double sum = 0;
  for (int pass = 0; pass < 4; ++pass)
    for (const float value : rows) sum += std::sqrt(static_cast<double>(value) + pass);
  return sum;
}

/// Reads random rows of a divided table in every step and computes with them. One-sided: the rows of the next step are
/// read meanwhile.
double read_rows(PatternRank& r, bool one_sided, int steps, Values& result, const Rows::Shape& shape, size_t count) {
  const auto memory = r.heap.allocate<char>(Rows::bytes(shape, r.world()));
  const Rows table = filled_table(r, memory, shape);
  std::vector<float> rows[2] = {std::vector<float>(count * shape.columns), std::vector<float>(count * shape.columns)};
  double sum = 0, us = 0;
  if (one_sided) {
    std::vector<std::unique_ptr<Event>> read, used;
    for (int step = 0; step <= steps; ++step)
      read.push_back(r.context.device.make_event()), used.push_back(r.context.device.make_event());
    us = r.timed_calls([&] {
      for (int step = 0; step < steps; ++step) {
        const auto s = static_cast<size_t>(step);
        if (step > 1) r.prefetch->wait(*used[s - 2]);
        as_cpu(*r.prefetch).enqueue([&, step, s] {
          table.gather(rows_of_step(r.rank(), step, shape.rows, count), rows[s % 2].data());
        });
        r.prefetch->record(*read[s]);
        r.stream->wait(*read[s]);
        as_cpu(*r.stream).enqueue([&, s] { sum += consume(rows[s % 2]); });
        r.stream->record(*used[s]);
      }
    });
  } else {
    RowExchange exchange(r, table, count, shape.columns);
    us = r.timed_calls([&] {
      for (int step = 0; step < steps; ++step) {
        exchange.enqueue([&, step] { return rows_of_step(r.rank(), step, shape.rows, count); }, rows[0].data());
        as_cpu(*r.stream).enqueue([&] { sum += consume(rows[0]); });
      }
    });
  }
  r.communicator().barrier(r.deadline());  // no rank reads any more
  r.heap.free(memory);
  result = {sum};
  return us;
}

double parameter_server(PatternRank& r, bool one_sided, int steps, Values& result, Values&) {
  return read_rows(r, one_sided, steps, result, {2048, 64, 8}, 32);
}

double kv_pages(PatternRank& r, bool one_sided, int steps, Values& result, Values&) {
  return read_rows(r, one_sided, steps, result, {256, 2048, 1}, 8);  // pages of 8 KB
}

/// Activations of a micro-batch from each stage of a pipeline to the next; the last stage says when a slot is free.
double pipeline_hand_off(PatternRank& r, bool one_sided, int steps, Values& result, Values&) {
  constexpr size_t kFloats = 4096, kSlots = 4;
  std::vector<float> activations(kFloats, static_cast<float>(r.rank())), received(kFloats);
  const bool first = r.rank() == 0, last = r.rank() == r.world() - 1;
  double us = 0;
  if (!one_sided) {
    us = r.timed_calls([&] {
      for (int step = 0; step < steps; ++step) {
        if (!first) r.communicator().recv(received.data(), kFloats, DType::f32, r.rank() - 1, *r.stream);
        if (!last) r.communicator().send(activations.data(), kFloats, DType::f32, r.rank() + 1, *r.stream);
      }
    });
  } else {
    const auto slots = r.heap.allocate<float>(kSlots * kFloats);
    const auto signals = r.heap.allocate<Signal>(2);  // filled, taken
    us = r.timed([&] {
      const TeamView& view = r.team.view;
      Signal* const own = r.heap.local(signals);
      float* const inbox = r.heap.local(slots);
      for (int step = 0; step < steps; ++step) {
        const auto number = static_cast<uint64_t>(step) + 1;
        float* const slot = inbox + static_cast<size_t>(step) % kSlots * kFloats;
        if (!first) {
          if (!sym::wait_until(view, own, number, view.rank - 1)) r.team.fail("a micro-batch");
          std::copy_n(slot, kFloats, received.data());
          sym::store_release(sym::peer(view, own + 1, view.rank - 1), number);
        }
        if (last) continue;
        if (number > kSlots && !sym::wait_until(view, own + 1, number - kSlots, view.rank + 1))
          r.team.fail("a free slot");
        sym::put_signal(view, slot, activations.data(), kFloats * sizeof(float), own, number, view.rank + 1);
      }
    });
    r.communicator().barrier(r.deadline());
    r.heap.free(signals);
    r.heap.free(slots);
  }
  result = {first ? 0.0 : received.front()};
  return us;
}

/// Jacobi iterations on a ring of strips: every step needs the boundary rows of both neighbours.
double halo(PatternRank& r, bool one_sided, int steps, Values& result, Values&) {
  constexpr size_t kColumns = 512, kRows = 32;
  constexpr size_t kBytes = kColumns * sizeof(float);
  std::vector<float> grid((kRows + 2) * kColumns), fresh(grid.size());
  for (size_t i = 0; i < grid.size(); ++i) grid[i] = static_cast<float>((i * 7 + static_cast<size_t>(r.rank())) % 11);
  const auto row = [&](std::vector<float>& of, size_t index) { return of.data() + index * kColumns; };
  const auto relax = [&] {
    for (size_t y = 1; y <= kRows; ++y)
      for (size_t x = 0; x < kColumns; ++x) {
        const size_t left = x == 0 ? kColumns - 1 : x - 1, right = x + 1 == kColumns ? 0 : x + 1;
        row(fresh, y)[x] =
            0.25f * (row(grid, y - 1)[x] + row(grid, y + 1)[x] + row(grid, y)[left] + row(grid, y)[right]);
      }
    grid.swap(fresh);
  };
  double us = 0;
  if (!one_sided) {
    std::vector<float> up(kColumns), down(kColumns), above(kColumns), below(kColumns);
    us = r.timed_calls([&] {
      for (int step = 0; step < steps; ++step) {
        as_cpu(*r.stream).enqueue([&] {
          std::copy_n(row(grid, 1), kColumns, up.data());
          std::copy_n(row(grid, kRows), kColumns, down.data());
        });
        r.communicator().send_recv(up.data(), r.previous(), below.data(), r.next(), kColumns, DType::f32, *r.stream);
        r.communicator().send_recv(down.data(), r.next(), above.data(), r.previous(), kColumns, DType::f32, *r.stream);
        as_cpu(*r.stream).enqueue([&] {
          std::copy_n(below.data(), kColumns, row(grid, kRows + 1));
          std::copy_n(above.data(), kColumns, row(grid, 0));
          relax();
        });
      }
    });
  } else {
    const auto edges = r.heap.allocate<float>(4 * kColumns);  // above and below, two sets
    const auto signals = r.heap.allocate<Signal>(2);
    us = r.timed([&] {
      const TeamView& view = r.team.view;
      Signal* const own = r.heap.local(signals);
      for (int step = 0; step < steps; ++step) {
        const auto number = static_cast<uint64_t>(step) + 1;
        // A neighbour that is a step ahead writes the other set; it cannot be two steps ahead.
        float* const set = r.heap.local(edges) + number % 2 * 2 * kColumns;
        sym::put_signal(view, set + kColumns, row(grid, 1), kBytes, own + 1, number, r.previous());
        sym::put_signal(view, set, row(grid, kRows), kBytes, own, number, r.next());
        if (!sym::wait_until(view, own, number, r.previous()) || !sym::wait_until(view, own + 1, number, r.next()))
          r.team.fail("a boundary");
        std::copy_n(set, kColumns, row(grid, 0));
        std::copy_n(set + kColumns, kColumns, row(grid, kRows + 1));
        relax();
      }
    });
    r.communicator().barrier(r.deadline());
    r.heap.free(signals);
    r.heap.free(edges);
  }
  result = {row(grid, 1)[3], row(grid, kRows)[kColumns - 1]};
  return us;
}

/// Work of about `units` microseconds that the compiler keeps.
double work(int units, double start) {
  double value = start;
  for (int i = 0; i < units * 100; ++i) value = std::sqrt(value + 1.0);
  return value;
}

/// Tasks of unequal cost: equal shares by number, or each rank takes the next one from a counter. A step is a task.
double load_balance(PatternRank& r, bool one_sided, int steps, Values& result, Values&) {
  const auto cost = [steps](int task) { return task < steps / 4 ? 12 : 2; };  // the expensive ones come first
  const auto counter = r.heap.allocate<uint64_t>(1);
  double done = 0;
  const double us = r.timed([&] {
    if (!one_sided) {
      const int share = (steps + r.world() - 1) / r.world();
      for (int task = r.rank() * share; task < std::min(steps, (r.rank() + 1) * share); ++task)
        done += work(cost(task), task);
    } else {
      while (true) {
        const auto task = static_cast<int>(sym::fetch_add(r.team.view, r.heap.local(counter), 1, 0));
        if (task >= steps) break;
        done += work(cost(task), task);
      }
    }
  });
  r.communicator().barrier(r.deadline());
  r.heap.free(counter);
  double all = 0;  // in whatever order the tasks were done
  for (const double each : exchange_results(r.communicator(), done, r.deadline())) all += each;
  result = {std::round(all * 1e3)};
  return us;
}

/// Least squares by gradient descent; every rank has rows of its own, and the last rank is sometimes slow. Synchronous:
/// the mean over all ranks in every step. One-sided: the newest gradients, at most 4 steps old.
double stale_aggregation(PatternRank& r, bool one_sided, int steps, Values& result, Values& loss) {
  constexpr size_t kWidth = 256, kRows = 64;
  constexpr uint64_t kStale = 4;
  constexpr float kRate = 0.02f;
  std::mt19937 random(static_cast<unsigned>(r.rank()) + 5);
  std::normal_distribution<float> normal;
  std::vector<float> inputs(kRows * kWidth), targets(kRows), weights(kWidth), gradient(kWidth), mean(kWidth);
  for (float& value : inputs) value = normal(random) / 16;
  for (size_t i = 0; i < kRows; ++i)
    for (size_t k = 0; k < kWidth; ++k) targets[i] += inputs[i * kWidth + k] * static_cast<float>(k % 7);
  const auto local_gradient = [&](int step) {
    double sum = 0;
    std::fill(gradient.begin(), gradient.end(), 0.0f);
    for (size_t i = 0; i < kRows; ++i) {
      float error = -targets[i];
      for (size_t k = 0; k < kWidth; ++k) error += inputs[i * kWidth + k] * weights[k];
      sum += static_cast<double>(error) * error;
      for (size_t k = 0; k < kWidth; ++k) gradient[k] += error * inputs[i * kWidth + k];
    }
    if (r.rank() == r.world() - 1 && step % 8 == 0) gradient[0] += static_cast<float>(0 * work(100, step));
    return sum / kRows;
  };
  const auto update = [&] {
    for (size_t k = 0; k < kWidth; ++k) weights[k] -= kRate * 10 * mean[k];
  };
  double us = 0;
  loss.clear();
  if (!one_sided) {
    us = r.timed_calls([&] {
      for (int step = 1; step <= steps; ++step) {
        as_cpu(*r.stream).enqueue([&, step] { loss.push_back(local_gradient(step)); });
        r.communicator().all_reduce(gradient.data(), mean.data(), kWidth, DType::f32, ReduceOp::avg, *r.stream);
        as_cpu(*r.stream).enqueue(update);
      }
    });
  } else {
    const auto memory = r.heap.allocate<char>(GradientBuffer::bytes(r.world(), kWidth) + 64);
    std::vector<int> everyone;
    for (int rank = 0; rank < r.world(); ++rank) everyone.push_back(rank);
    us = r.timed([&] {
      // A buffer on every rank, to which all ranks publish: each aggregates for itself.
      std::vector<GradientBuffer> buffers;
      for (int home = 0; home < r.world(); ++home) buffers.emplace_back(r.team, memory.range.offset, kWidth, home);
      for (int step = 1; step <= steps; ++step) {
        loss.push_back(local_gradient(step));
        for (GradientBuffer& buffer : buffers) buffer.publish(gradient.data(), static_cast<uint64_t>(step));
        buffers[static_cast<size_t>(r.rank())].collect(everyone, static_cast<uint64_t>(step), kStale, mean.data());
        update();
      }
    });
    r.communicator().barrier(r.deadline());
    r.heap.free(memory);
  }
  result = {loss.back()};
  return us;
}

}  // namespace

const std::vector<PatternRow>& one_sided_patterns() {
  static const std::vector<PatternRow> rows{
      {"gradient_sync", "all-reduce of 16 KiB", gradient_sync},
      {"parameter_server", "32 rows of 256 bytes, and work with them", parameter_server},
      {"pipeline_hand_off", "a micro-batch of 16 KiB to the next stage", pipeline_hand_off},
      {"stale_aggregation", "gradient descent, one rank sometimes slow", stale_aggregation, false},
      {"halo", "2 rows of 2 KiB, and an update of 32 x 512 points", halo},
      {"load_balance", "a task; a quarter of them cost six times as much", load_balance},
      {"kv_pages", "8 pages of 8 KiB, and work with them", kv_pages},
  };
  return rows;
}

}  // namespace amdahl
