// Text and Markdown of a comparison of sensor runs against golden files, and the fixtures of the command's tests.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "report/page/markdown_page.h"
#include "report/page/text_page.h"
#include "sensor/report/compare.h"
#include "sensor_records.h"
#include "spec/json.h"

namespace amdahl {
namespace {

// To accept a changed file: copy it from test-output in the build folder and review it.
void expect_golden(const std::string& text, const std::string& name, const std::string& golden_path) {
  std::filesystem::create_directories(AMDAHL_BINARY_DIR "/test-output");
  std::ofstream(AMDAHL_BINARY_DIR "/test-output/" + name, std::ios::binary) << text;
  std::ifstream file(AMDAHL_SOURCE_DIR "/" + golden_path, std::ios::binary);
  ASSERT_TRUE(file.good()) << golden_path << " is missing";
  std::stringstream golden;
  golden << file.rdbuf();
  EXPECT_EQ(text, golden.str()) << golden_path;
}

TEST(SensorCompareGolden, FixturesAreWhatTheWriterWrites) {
  for (const auto& [name, records] : test::sensor_fixtures())
    expect_golden(records_to_json(records) + "\n", "sensor_" + name + ".json",
                  "tests/cli/fixtures/sensor_" + name + ".json");
}

TEST(SensorCompareGolden, TextAndMarkdown) {
  SensorSides sides;
  for (const auto& [name, records] : test::sensor_fixtures()) {
    auto& side = name == "hetero" ? sides.hetero : name.starts_with("2x") ? sides.multi : sides.single;
    side.push_back({name + ".json", records});
  }
  PriceTable prices;
  prices.source = "p.toml", prices.as_of = "2026-01-02";
  prices.devices = {{"H100", 3.5, 30'000.0, {}, ""}, {"A100", 2.5, {}, {}, ""}};
  const SensorComparison c = compare_sensors(sides, {prices, false});
  const std::string text = text_page(sensor_compare_page(c));
  expect_golden(text, "sensor_compare.txt", "tests/unit/report/golden/sensor_compare.txt");
  expect_golden(markdown_page(sensor_compare_page(c)), "sensor_compare.md",
                "tests/unit/report/golden/sensor_compare.md");
  for (const char letter : text) EXPECT_LT(static_cast<unsigned char>(letter), 0x80);
}

}  // namespace
}  // namespace amdahl
