// Random documents come back from their JSON as they were, whatever is in their texts and numbers; damaged ones are
// refused with an error that names the file.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "amdahl/machine.h"
#include "amdahl/plan.h"
#include "errors.h"
#include "spec/json.h"
#include "spec/run_folder.h"
#include "spec/trace_json.h"

namespace amdahl {
namespace {

using Random = std::mt19937_64;

// Letters, quotes, backslashes, control characters and characters of two to four bytes.
std::string odd_text(Random& random) {
  static const std::vector<std::string> kParts{"a", "Z", "0",  " ",    "\"",       "\\",       "/",    "\n", "\t",
                                               "{", "]", ",",  "\x01", "\x1f",     "\x7f",     "é",    "→",  "𝄞",
                                               ":", "'", "\r", "\\u0", "</script", "$(rm -r)", "null", "\b", "\u202e"};
  std::string text;
  for (uint64_t left = random() % 9; left > 0; --left) text += kParts[random() % kParts.size()];
  return text;
}

// All sizes, signs, the smallest and the largest.
double odd_number(Random& random) {
  constexpr double kSpecial[] = {0.0,
                                 -0.0,
                                 1.0 / 3,
                                 1e99,
                                 -1e-300,
                                 -9e99,
                                 std::numeric_limits<double>::denorm_min(),
                                 std::numeric_limits<double>::epsilon(),
                                 9007199254740993.0,
                                 123456789.125};
  if (random() % 3 == 0) return kSpecial[random() % std::size(kSpecial)];
  return std::ldexp(static_cast<double>(static_cast<int64_t>(random())), static_cast<int>(random() % 200) - 150);
}

int64_t odd_whole(Random& random) {
  constexpr int64_t kSpecial[] = {0, 1, -1, std::numeric_limits<int64_t>::max(), std::numeric_limits<int64_t>::min()};
  return random() % 4 == 0 ? kSpecial[random() % std::size(kSpecial)] : static_cast<int64_t>(random());
}

Provenance odd_provenance(Random& random) {
  Provenance p{odd_text(random),
               odd_text(random),
               odd_text(random),
               odd_text(random),
               odd_text(random),
               random() % 2 == 0 ? "cuda" : "cpu-virtual",
               random() % 3 == 0 ? std::numeric_limits<uint64_t>::max() : random(),
               {}};
  for (uint64_t left = random() % 4; left > 0; --left) p.facts["fact " + odd_text(random)] = odd_text(random);
  return p;
}

Record odd_record_of_json(Random& random) {
  Record record;
  record.kind = "kind " + odd_text(random);
  record.status = {static_cast<Status::Kind>(random() % 3), odd_text(random)};
  if (record.status.kind == Status::Kind::ok) record.status.reason.clear();
  record.origin = static_cast<Origin>(random() % 3);
  for (uint64_t left = random() % 5; left > 0; --left) {
    const AxisValue values[] = {odd_whole(random), odd_number(random), random() % 2 == 0, odd_text(random)};
    record.axes["axis " + odd_text(random)] = values[random() % 4];
  }
  for (uint64_t left = random() % 4; left > 0; --left) {
    record.series.push_back({"series " + odd_text(random), odd_text(random), {}});
    for (uint64_t samples = random() % 6; samples > 0; --samples)
      record.series.back().samples.push_back(odd_number(random));
  }
  record.provenance = odd_provenance(random);
  return record;
}

bool same_bits(double a, double b) { return a == b && std::signbit(a) == std::signbit(b); }

void expect_same(const Record& a, const Record& b) {
  EXPECT_EQ(a.kind, b.kind);
  EXPECT_EQ(a.status.kind, b.status.kind);
  EXPECT_EQ(a.status.reason, b.status.reason);
  EXPECT_EQ(a.origin, b.origin);
  EXPECT_EQ(a.provenance, b.provenance);
  ASSERT_EQ(a.axes.size(), b.axes.size());
  for (const auto& [name, value] : a.axes) {
    ASSERT_TRUE(b.axes.contains(name)) << name;
    const AxisValue& other = b.axes.at(name);
    ASSERT_EQ(value.index(), other.index()) << name << " has another type";
    EXPECT_TRUE(value == other) << name;
  }
  ASSERT_EQ(a.series.size(), b.series.size());
  for (size_t i = 0; i < a.series.size(); ++i) {
    EXPECT_EQ(a.series[i].name, b.series[i].name);
    EXPECT_EQ(a.series[i].unit, b.series[i].unit);
    ASSERT_EQ(a.series[i].samples.size(), b.series[i].samples.size());
    for (size_t k = 0; k < a.series[i].samples.size(); ++k)
      EXPECT_TRUE(same_bits(a.series[i].samples[k], b.series[i].samples[k]))
          << fmt::format("{} became {}", a.series[i].samples[k], b.series[i].samples[k]);
  }
}

TEST(JsonProperties, RecordsComeBackBitByBit) {
  Random random(101);
  for (int trial = 0; trial < 400; ++trial) {
    const Record record = odd_record_of_json(random);
    const std::string text = record_to_json(record);
    EXPECT_EQ(text.find('\n'), std::string::npos) << "one line: " << text;
    expect_same(record, record_from_json(text, "a.json"));
  }
}

// Every document with a byte changed, removed or doubled is read or refused; never is there another kind of end.
template <class Read>
void expect_read_or_refused(const std::string& text, Random& random, const Read& read, int trials) {
  int refused = 0;
  for (int trial = 0; trial < trials; ++trial) {
    std::string bent = text;
    const size_t at = random() % bent.size();
    switch (random() % 4) {
      case 0:
        bent[at] = static_cast<char>(random());
        break;
      case 1:
        bent.erase(at, 1 + random() % 20);
        break;
      case 2:
        bent.insert(at, bent.substr(at / 2, random() % 30));
        break;
      default:
        bent.resize(at);
    }
    const Error error = error_of([&] { read(bent); });
    if (error.cause() == Cause::internal && std::string(error.what()) == "no error was thrown") continue;
    ++refused;
    ASSERT_TRUE(error.cause() == Cause::store_corrupt || error.cause() == Cause::version_refused ||
                error.cause() == Cause::usage || error.cause() == Cause::data_corrupt)
        << error.line() << "\n"
        << bent;
    ASSERT_NE(error.line().find("the-file"), std::string::npos) << error.line();
    ASSERT_FALSE(error.remedy().empty()) << error.line();
  }
  EXPECT_GT(refused, trials / 4);
}

TEST(JsonProperties, DamagedRecordsAreNamed) {
  Random random(103);
  for (int document = 0; document < 20; ++document)
    expect_read_or_refused(
        record_to_json(odd_record_of_json(random)), random,
        [](const std::string& text) { static_cast<void>(record_from_json(text, "the-file")); }, 60);
}

StepTrace odd_trace(Random& random) {
  StepTrace trace;
  trace.model = odd_text(random), trace.strategy = "ddp", trace.launch = "eager", trace.how = odd_text(random);
  trace.global_batch = 64, trace.devices = 1 + static_cast<int>(random() % 3);
  trace.first_step = 2, trace.end_step = 5;
  for (int rank = 0; rank < trace.devices; ++rank) {
    trace.ranks.push_back({rank, odd_text(random), odd_text(random), "its clock", 0.25 * rank});
    double start = 0;
    for (uint64_t left = random() % 10; left > 0; --left) {
      start += static_cast<double>(random() % 100'000) / 1000;  // whole nanoseconds
      trace.events.push_back({static_cast<TraceKind>(random() % 7), "event " + odd_text(random), "compute", rank,
                              static_cast<int64_t>(2 + random() % 3), start,
                              static_cast<double>(random() % 100'000) / 1000, static_cast<int64_t>(random() >> 20)});
    }
  }
  trace.provenance = odd_provenance(random);
  return trace;
}

TEST(JsonProperties, TracesComeBackToTheNanosecond) {
  Random random(104);
  for (int trial = 0; trial < 100; ++trial) {
    const StepTrace trace = odd_trace(random), again = trace_from_json(trace_to_json(trace), "t");
    EXPECT_EQ(again.ranks, trace.ranks);
    EXPECT_EQ(again.model, trace.model);
    EXPECT_EQ(again.provenance, trace.provenance);
    ASSERT_EQ(again.events.size(), trace.events.size());
    for (size_t i = 0; i < trace.events.size(); ++i) {
      TraceEvent event = again.events[i];
      EXPECT_NEAR(event.start_us, trace.events[i].start_us, 1e-6);
      EXPECT_NEAR(event.duration_us, trace.events[i].duration_us, 1e-6);
      event.start_us = trace.events[i].start_us, event.duration_us = trace.events[i].duration_us;
      EXPECT_EQ(event, trace.events[i]);
    }
  }
  expect_read_or_refused(
      trace_to_json(odd_trace(random)), random,
      [](const std::string& text) { static_cast<void>(trace_from_json(text, "the-file")); }, 200);
}

TEST(JsonProperties, ModelsComeBackAndDamageIsNamed) {
  Random random(105);
  for (int trial = 0; trial < 200; ++trial) {
    ModelSpec model{"model " + odd_text(random), static_cast<int64_t>(1 + random() % 5000), {}, LossKind::mse};
    for (uint64_t left = random() % 5; left > 0; --left) {
      const bool relu = random() % 2 == 0;
      model.layers.push_back({static_cast<int64_t>(1 + random() % 3000), random() % 2 == 0,
                              relu ? Activation::relu : Activation::none,
                              relu ? static_cast<double>(random() % 100) / 128 : 0});
    }
    model.layers.push_back({static_cast<int64_t>(2 + random() % 10), random() % 2 == 0, Activation::none, 0});
    if (random() % 2 == 0) model.loss = LossKind::softmax_cross_entropy;
    const ModelSpec again = model_from_json(model_to_json(model), "m");
    EXPECT_EQ(again.name, model.name);
    EXPECT_EQ(again.input_width, model.input_width);
    EXPECT_EQ(again.loss, model.loss);
    EXPECT_EQ(again.num_parameters(), model.num_parameters());
    ASSERT_EQ(again.layers.size(), model.layers.size());
    for (size_t i = 0; i < model.layers.size(); ++i) {
      EXPECT_EQ(again.layers[i].units, model.layers[i].units);
      EXPECT_EQ(again.layers[i].bias, model.layers[i].bias);
      EXPECT_EQ(again.layers[i].activation, model.layers[i].activation);
      EXPECT_EQ(again.layers[i].dropout, model.layers[i].dropout);
    }
    if (trial < 10)
      expect_read_or_refused(
          model_to_json(model), random,
          [](const std::string& text) { static_cast<void>(model_from_json(text, "the-file")); }, 100);
  }
}

TEST(JsonProperties, NoNumberIsWrittenThatJsonDoesNotHave) {
  for (const double value :
       {std::nan(""), std::numeric_limits<double>::infinity(), -std::numeric_limits<double>::infinity()}) {
    Record record;
    record.kind = "study-run";
    record.series = {{"time", "us", {1, value}}};
    EXPECT_EQ(error_of([&] { static_cast<void>(record_to_json(record)); }).cause(), Cause::internal);
    record.series.clear();
    record.axes["size"] = value;
    EXPECT_EQ(error_of([&] { static_cast<void>(record_to_json(record)); }).cause(), Cause::internal);
  }
}

TEST(JsonProperties, DeepNestingIsNoStackOverflow) {
  for (const char* open : {"[", "{\"a\":"}) {
    std::string text = "{\"type\":\"record\",\"axes\":";
    for (int i = 0; i < 200'000; ++i) text += open;
    EXPECT_EQ(error_of([&] { static_cast<void>(record_from_json(text, "the-file")); }).cause(), Cause::store_corrupt);
  }
}

// The limits of the table, at their ends and one beyond, for every field of a plan.
TEST(PlanFieldProperties, LimitsAreInclusiveAndNamed) {
  for (const PlanField& field : plan_fields()) {
    const auto* number = std::get_if<int64_t PlanOptions::*>(&field.member);
    if (!number) continue;
    for (const int64_t value : {field.least, field.most, (field.least + field.most) / 2}) {
      PlanOptions options;
      options.** number = value;
      EXPECT_NO_THROW(check_plan_options(options)) << field.name << " " << value;
      if (field.format)
        EXPECT_EQ(text_of(field, options), field.format(value));
      else
        EXPECT_EQ(text_of(field, options),
                  field.choices.empty() ? std::to_string(value) : field.choices[static_cast<size_t>(value)]);
    }
    for (const int64_t value :
         {field.least - 1, field.most + 1, std::numeric_limits<int64_t>::min(), std::numeric_limits<int64_t>::max()}) {
      PlanOptions options;
      options.** number = value;
      const Error error = error_of([&] { check_plan_options(options); });
      EXPECT_EQ(error.cause(), Cause::usage) << field.name << " " << value;
      EXPECT_NE(error.line().find(fmt::format("{} is {}", field.name, value)), std::string::npos) << error.line();
      EXPECT_NE(error.remedy().find(fmt::format("{} to ", field.least)), std::string::npos) << error.remedy();
    }
    EXPECT_EQ(field.most % field.option_unit, 0) << field.name << ": the limit is no value of the option";
  }
}

TEST(PlanProperties, LocalRowsAddUpToTheBatch) {
  Random random(106);
  for (int trial = 0; trial < 300; ++trial) {
    ParallelPlan plan;
    plan.mesh = {.dp = 1 + static_cast<int>(random() % 8), .tp = 1 + static_cast<int>(random() % 3), .pp = 1};
    plan.accumulate = static_cast<int64_t>(1 + random() % 4);
    const auto rows = static_cast<int64_t>(1 + random() % 100);
    plan.strategy = "ddp";
    plan.global_batch = rows * plan.mesh.dp * plan.accumulate;
    EXPECT_EQ(plan.local_rows(), rows);
    EXPECT_EQ(plan.num_devices(), plan.mesh.dp * plan.mesh.tp);
    plan.strategy = "replicated";
    EXPECT_EQ(plan.local_rows(), rows * plan.mesh.dp);
  }
}

}  // namespace
}  // namespace amdahl
