#include "spec/json.h"

#include <gtest/gtest.h>

#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "base/limited_devices.h"
#include "plan/layer_kinds.h"
#include "report/study/summary.h"
#include "report_records.h"
#include "sensor_records.h"

namespace amdahl {
namespace {

Error model_error(const std::string& model_text) {
  try {
    model_from_json(model_text, "m.json");
  } catch (const Error& e) {
    return e;
  }
  return Error(Cause::internal, "accepted");
}

TEST(SpecModel, RoundTripsEveryPreset) {
  for (const ModelSpec& preset : model_presets()) {
    const ModelSpec back = model_from_json(model_to_json(preset), "preset");
    EXPECT_EQ(back.name, preset.name);
    EXPECT_EQ(back.num_parameters(), preset.num_parameters());
    EXPECT_EQ(model_to_json(back), model_to_json(preset));
  }
}

TEST(SpecModel, HiddenLayersDefaultToReluAndTheOutputToNone) {
  const ModelSpec m = model_from_json(
      R"({"version":1,"name":"x","input_width":4,"loss":"softmax_cross_entropy","layers":[{"units":8,"dropout":0.2},{"units":2,"bias":false}]})",
      "m.json");
  EXPECT_EQ(m.loss, LossKind::softmax_cross_entropy);
  EXPECT_EQ(m.layers[0].activation, Activation::relu);
  EXPECT_EQ(m.layers[1].activation, Activation::none);
  EXPECT_EQ(m.num_parameters(), 4 * 8 + 8 + 8 * 2);
}

TEST(SpecModel, NamesFileFieldAndRemedy) {
  const Error unknown = model_error(R"({"version":1,"name":"x","input_width":4,"layers":[{"unit":8}]})");
  EXPECT_EQ(unknown.cause(), Cause::usage);
  EXPECT_NE(std::string(unknown.what()).find("m.json: field 'layers[0].unit'"), std::string::npos) << unknown.what();
  EXPECT_NE(unknown.remedy().find("units"), std::string::npos);
  EXPECT_EQ(model_error(R"({"version":2,"name":"x"})").cause(), Cause::version_refused);
  EXPECT_EQ(model_error(R"({"name":"x"})").cause(), Cause::usage);
  EXPECT_EQ(model_error("{").cause(), Cause::usage);
  EXPECT_EQ(model_error("[]").cause(), Cause::usage);
  EXPECT_EQ(model_error(R"({"version":1,"name":"x","input_width":"4","layers":[]})").cause(), Cause::usage);
  EXPECT_EQ(model_error(R"({"version":1,"name":"x","input_width":4,"layers":[]})").cause(), Cause::usage);
  EXPECT_EQ(model_error(R"({"version":1,"name":"x","input_width":4,"loss":"mae","layers":[{"units":1}]})").cause(),
            Cause::usage);
  EXPECT_EQ(
      model_error(R"({"version":1,"name":"x","input_width":99999999999999999999,"layers":[{"units":1}]})").cause(),
      Cause::usage);
  EXPECT_THROW(load_model("/nonexistent/model.json"), Error);
}

TEST(SpecRecord, RoundTripsWithAllTypes) {
  Record r = test::fake_record({}, 3);
  r.axes["rate"] = 1.0;  // stays a double, although it is whole
  r.axes["big"] = std::numeric_limits<int64_t>::min();
  r.provenance.seed = std::numeric_limits<uint64_t>::max();
  r.provenance.facts["odd"] = "tab\t quote\" newline\n ümlaut";
  r.status = {Status::Kind::waived, "because"};
  r.origin = Origin::emulated;
  const Record back = record_from_json(record_to_json(r), "test");
  EXPECT_EQ(back.axes, r.axes);
  EXPECT_EQ(back.provenance, r.provenance);
  EXPECT_EQ(back.status.kind, Status::Kind::waived);
  EXPECT_EQ(back.status.reason, "because");
  EXPECT_EQ(back.origin, Origin::emulated);
  EXPECT_EQ(back.value("step_time"), r.value("step_time"));
  EXPECT_EQ(record_to_json(back), record_to_json(r));
  EXPECT_EQ(record_to_json(r).find('\n'), std::string::npos);
}

TEST(SpecRecord, LimitedDevicesAreNamedAndEmulatedWhateverTheFileSays) {
  const Record written = test::fake_limited({}, "even");
  ASSERT_EQ(written.origin, Origin::measured);
  const Record back = record_from_json(record_to_json(written), "test");
  EXPECT_EQ(back.origin, Origin::emulated);
  EXPECT_EQ(numbered_devices(back.provenance), (std::vector<std::string>{test::kH100, test::kLimitedH100}));
  const Record again = record_from_json(record_to_json(back), "test");
  EXPECT_EQ(again.provenance, back.provenance) << "a name is limited once";

  Record whole = written;
  whole.provenance.facts.erase("held_back.1");
  EXPECT_EQ(record_from_json(record_to_json(whole), "test").origin, Origin::measured);
  Record nothing_else = written;
  nothing_else.provenance.facts.erase("device.0.sm_count");
  EXPECT_EQ(numbered_devices(record_from_json(record_to_json(nothing_else), "test").provenance)[1],
            std::string(test::kH100) + ", limited to 32 SMs, emulated");
}

TEST(SpecRecord, LimitsOfVirtualDevicesAreSharesOfTheirSpeed) {
  Provenance provenance;
  provenance.device_kind = "cpu-virtual";
  provenance.facts = {{"device.2", "CPU virtual device 2"}, {"device.3", "CPU virtual device 3"}};
  std::vector<DeviceSpec> devices(2);
  devices[0].index = 2, devices[1].index = 3;
  limit_devices(provenance, devices, {});
  limit_devices(provenance, devices, {1, 1});
  EXPECT_EQ(origin_of_devices(provenance), Origin::measured);
  EXPECT_EQ(counted_devices(numbered_devices(provenance)), "2x CPU virtual device");
  limit_devices(provenance, devices, {1, 0.5});
  EXPECT_EQ(origin_of_devices(provenance), Origin::emulated);
  EXPECT_EQ(provenance.facts["held_back.3"], "0.5");
  EXPECT_EQ(counted_devices(numbered_devices(provenance), " x "),
            "1 x CPU virtual device + 1 x CPU virtual device, 50 % of its speed, emulated");
}

TEST(SpecRecord, NeverWritesNonFiniteNumbers) {
  for (const double bad : {std::nan(""), double(INFINITY), -double(INFINITY)}) {
    Record r = test::fake_record({}, 0);
    r.series[0].samples[0] = bad;
    EXPECT_THROW(record_to_json(r), Error);
    r = test::fake_record({}, 0);
    r.axes["x"] = bad;
    EXPECT_THROW(record_to_json(r), Error);
  }
  EXPECT_THROW(record_from_json("{\"kind\":1}", "x"), Error);
}

TEST(SpecRecord, InvalidUtf8BecomesReplacementCharacters) {
  Record r = test::fake_record({}, 0);
  r.provenance.command_line = "amdahl \xff\xfe";
  EXPECT_EQ(record_from_json(record_to_json(r), "x").provenance.command_line, "amdahl \xEF\xBF\xBD\xEF\xBF\xBD");
}

TEST(SpecMachine, RoundTrips) {
  MachineSpec m;
  m.host = "host", m.os = "Linux", m.cpu_name = "CPU";
  m.num_cores = 8, m.num_numa_nodes = 2, m.memory_bytes = 1 << 30;
  DeviceSpec gpu;
  gpu.kind = "cuda", gpu.name = "GPU_X", gpu.uuid = "GPU-1", gpu.memory_bytes = 80'000'000'000;
  gpu.sm_count = 132, gpu.compute_capability = "9.0";
  m.devices = {gpu};
  m.versions = {{"cuda", "13.0"}};
  const MachineSpec back = machine_from_json(machine_to_json(m), "test");
  EXPECT_EQ(machine_to_json(back), machine_to_json(m));
  EXPECT_EQ(back.devices.at(0).sm_count, 132);
  EXPECT_THROW(machine_from_json(R"({"version":9})", "x"), Error);
}

TEST(SpecSummary, RoundTripsAWholeStudy) {
  std::vector<Record> records = test::sample_study();
  for (Record& record : records)
    for (const char* series :
         {"account_by_differences", "account_noise", "launch_floor", "launch_kernels", "fused_update"})
      if (record.value("account_step")) record.series.push_back({series, "1", {1}});
  const StudySummary summary = summarise_study(records);
  EXPECT_TRUE(summary.cells[0].account->method == AccountMethod::differences && summary.cells[0].account->fused_update);
  const std::string text = summary_to_json(summary);
  const StudySummary back = summary_from_json(text, "test");
  EXPECT_EQ(summary_to_json(back), text);
  ASSERT_EQ(back.cells.size(), summary.cells.size());
  EXPECT_EQ(back.cells[0].step_time_us, summary.cells[0].step_time_us);
  EXPECT_EQ(back.cells[0].account, summary.cells[0].account);
  ASSERT_EQ(back.comparisons.size(), summary.comparisons.size());
  EXPECT_EQ(back.comparisons[0].test, summary.comparisons[0].test);
  EXPECT_EQ(back.comparisons[0].recommendation, summary.comparisons[0].recommendation);
  EXPECT_EQ(back.provenance, summary.provenance);
  EXPECT_EQ(text.find("null"), std::string::npos);
}

TEST(SpecSummary, RefusesOtherVersionsAndDamage) {
  std::string text = summary_to_json(summarise_study(test::sample_study()));
  std::string other = text;
  other.replace(other.find("\"version\": 1"), 12, "\"version\": 7");
  try {
    summary_from_json(other, "s.json");
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.cause(), Cause::version_refused);
  }
  try {
    summary_from_json(text.substr(0, text.size() / 2), "s.json");
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.cause(), Cause::store_corrupt);
  }
}

TEST(ModelJson, EveryPresetSurvivesItsFile) {
  for (const ModelSpec& preset : model_presets()) {
    const std::string text = model_to_json(preset);
    const ModelSpec read = model_from_json(text, preset.name);
    EXPECT_EQ(model_to_json(read), text);
    EXPECT_EQ(read.num_parameters(), preset.num_parameters()) << preset.name;
    EXPECT_EQ(read.input_shape, preset.input_shape);
  }
}

// A file from before the fields of decoder blocks is written as it was read.
TEST(ModelJson, KeepsTheTextOfABlockWithoutNewParts) {
  const std::string text = R"({
  "input_shape": [
    8,
    4
  ],
  "input_width": 32,
  "layers": [
    {
      "causal": true,
      "heads": 2,
      "kind": "transformer_block",
      "post_norm": false,
      "units": 4
    },
    {
      "kind": "layer_norm"
    },
    {
      "kind": "pool",
      "pooling": "last"
    },
    {
      "activation": "none",
      "bias": true,
      "dropout": 0.0,
      "units": 2
    }
  ],
  "loss": "mse",
  "name": "m",
  "version": 1
})";
  EXPECT_EQ(model_to_json(model_from_json(text, "m.json")), text);
}

TEST(ModelJson, KeepsEveryPartOfADecoderBlock) {
  LayerSpec block{.units = 8, .activation = Activation::none, .kind = LayerKind::transformer_block, .heads = 4};
  block.causal = true, block.norm = NormKind::rms, block.epsilon = 1e-6, block.kv_heads = 2, block.head_dim = 6;
  block.hidden = 20, block.mlp = MlpKind::geglu, block.qkv_bias = block.out_bias = block.mlp_bias = false;
  block.qk_norm = true, block.window = 5, block.rope_theta = 5e5, block.rope_scaling = RopeScaling::yarn;
  block.rope_factor = 4, block.rope_original_steps = 16, block.rope_low = 1, block.rope_high = 32;
  block.rope_attention = 1.25, block.exact_gelu = true;
  LayerSpec norm{.activation = Activation::none, .kind = LayerKind::layer_norm};
  norm.norm = NormKind::rms, norm.epsilon = 1e-6;
  const ModelSpec model{
      "all parts", 64, {block, norm, {.units = 2, .activation = Activation::none}}, LossKind::mse, {8, 8}};
  const std::string text = model_to_json(model);
  for (const LayerField& field : row_of(LayerKind::transformer_block).fields)
    EXPECT_NE(text.find(fmt::format("\"{}\"", field.name)), std::string::npos) << field.name;
  EXPECT_EQ(model_from_json(text, "m.json").layers, model.layers);
}

TEST(ModelJson, KeepsTheChunksOfATokenHead) {
  ModelSpec model = find_model_preset("gpt2");
  EXPECT_EQ(model_to_json(model).find("chunk_rows"), std::string::npos);
  model.layers.back().chunk_rows = 2048;
  EXPECT_EQ(model_from_json(model_to_json(model), "m.json").layers, model.layers);
}

TEST(ModelJson, KeepsTheEndOfDocuments) {
  ModelSpec model = find_model_preset("gpt2");
  EXPECT_EQ(model_to_json(model).find("end_token"), std::string::npos);
  for (const int64_t end : {0, 50'256}) {
    model.layers.front().end_token = end;
    EXPECT_EQ(model_from_json(model_to_json(model), "m.json").layers, model.layers);
  }
}

TEST(ModelJson, NamesAnUnknownKindAndAMissingField) {
  const auto refusal_of = [](const std::string& layer) -> std::string {
    try {
      model_from_json(R"({"version": 1, "name": "m", "input_shape": [8, 4], "layers": [)" + layer + "]}", "m.json");
      return "accepted";
    } catch (const Error& error) {
      return error.what();
    }
  };
  EXPECT_NE(refusal_of(R"({"kind": "lstn", "units": 3})").find("'layers[0].kind' is \"lstn\""), std::string::npos);
  EXPECT_NE(refusal_of(R"({"kind": "transformer_block", "units": 4})").find("layers[0].heads"), std::string::npos);
  EXPECT_NE(refusal_of(R"({"kind": "lstm", "units": 3, "heads": 2})").find("heads"), std::string::npos);
  EXPECT_NE(refusal_of(R"({"kind": "pool", "pooling": "median"})").find("median"), std::string::npos);
  EXPECT_NE(refusal_of(R"({"kind": "layer_norm", "norm": "group"})").find("'layers[0].norm' is \"group\""),
            std::string::npos);
  EXPECT_NE(refusal_of(R"({"kind": "transformer_block", "units": 4, "heads": 4, "kv_heads": 3})")
                .find("its 4 heads cannot share 3"),
            std::string::npos);
}

}  // namespace
}  // namespace amdahl
