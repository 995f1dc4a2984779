#include <gtest/gtest.h>

#include "sensor/report/cost.h"
#include "spec/toml_files.h"
#include "stats/bootstrap.h"

namespace amdahl {
namespace {

constexpr const char* kTable = R"(currency = "EUR"
as_of = "2026-01"
electricity_per_kwh = 0.3
amortisation_months = 24

[[device]]
match = "RTX 4070"
purchase_price = 600
watts = 200

[[device]]  # the longer match wins
match = "RTX 4070 Ti SUPER"
purchase_price = 800
watts = 285
note = "list price"

[[device]]
match = "H100"
hourly_price = 3
)";

void expect_refused(const std::string& text, const std::vector<std::string>& says) {
  try {
    prices_from_toml(text, "p.toml");
    ADD_FAILURE() << "accepted: " << text;
  } catch (const Error& e) {
    EXPECT_EQ(e.cause(), Cause::usage);
    EXPECT_FALSE(e.remedy().empty()) << e.what();
    for (const std::string& word : says) EXPECT_NE(e.line().find(word), std::string::npos) << word << ": " << e.line();
  }
}

TEST(Prices, ReadsATable) {
  const PriceTable prices = prices_from_toml(kTable, "p.toml");
  EXPECT_EQ(prices.source, "p.toml");
  EXPECT_EQ(prices.currency, "EUR");
  EXPECT_EQ(prices.as_of, "2026-01");
  EXPECT_EQ(prices.amortisation_months, 24);
  ASSERT_EQ(prices.devices.size(), 3u);
  EXPECT_EQ(prices.devices[1].note, "list price");
  EXPECT_EQ(prices.devices[2].hourly_price, 3);
  EXPECT_FALSE(prices.devices[2].purchase_price || prices.devices[2].watts);
}

TEST(Prices, TheLongestMatchWins) {
  const PriceTable prices = prices_from_toml(kTable, "p.toml");
  EXPECT_EQ(find_price(prices, "NVIDIA GeForce RTX 4070 Ti SUPER")->purchase_price, 800);
  EXPECT_EQ(find_price(prices, "NVIDIA GeForce rtx 4070")->purchase_price, 600);
  EXPECT_EQ(find_price(prices, "NVIDIA L4"), nullptr);
}

TEST(Prices, AnHourOfWhatIsOwnedByHand) {
  PriceTable prices = prices_from_toml(kTable, "p.toml");
  const double hour = 800.0 / (24 * 730.5) + 0.285 * 0.3;
  EXPECT_DOUBLE_EQ(*price_of_an_hour(prices, prices.devices[1]), hour);
  EXPECT_DOUBLE_EQ(*price_of_an_hour(prices, prices.devices[2]), 3);
  std::vector<std::string> notes;
  const auto cost = cost_of(prices, {"run", 2, {"H100", "RTX 4070 Ti SUPER"}, "cuda"}, 1000, notes);
  ASSERT_TRUE(cost);
  EXPECT_TRUE(cost->owned);
  EXPECT_DOUBLE_EQ(cost->hourly_price, 3 + hour);
  EXPECT_DOUBLE_EQ(cost->work_per_price, 3.6e6 / (3 + hour));
  EXPECT_FALSE(cost->purchase_price);  // of one of the two
  EXPECT_TRUE(notes.empty());

  prices.devices[1].watts.reset();
  EXPECT_FALSE(price_of_an_hour(prices, prices.devices[1]));
  EXPECT_FALSE(cost_of(prices, {"run", 1, {"RTX 4070 Ti SUPER"}, "cuda"}, 1000, notes));
  EXPECT_EQ(notes.size(), 1u);
  prices.electricity_per_kwh.reset();
  EXPECT_DOUBLE_EQ(*price_of_an_hour(prices, prices.devices[1]), 800.0 / (24 * 730.5));
  prices.amortisation_months.reset();
  EXPECT_FALSE(price_of_an_hour(prices, prices.devices[1]));
}

TEST(Prices, RefusesWhatItCannotUse) {
  const std::string device = "[[device]]\nmatch = \"A\"\nhourly_price = 1\n";
  expect_refused("curency = \"USD\"\n" + device, {"p.toml:1", "'curency'", "currency?"});
  expect_refused(device + "houry_price = 1\n", {"p.toml:4", "'houry_price'", "hourly_price?"});
  expect_refused(device + "watts = -5\n", {"p.toml:4", "watts is -5"});
  expect_refused("[[device]]\nmatch = \"A\"\nhourly_price = 0\n", {"p.toml:3", "hourly_price is 0"});
  expect_refused("[[device]]\nmatch = \"A\"\nhourly_price = \"1\"\n", {"p.toml:3", "hourly_price is no number"});
  expect_refused("[[device]]\nmatch = \"A\"\nhourly_price = nan\n", {"p.toml:3", "hourly_price"});
  expect_refused("[[device]]\nmatch = \"A\"\nhourly_price = inf\n", {"p.toml:3", "hourly_price"});
  expect_refused("[[device]]\nmatch = \"A\"\nhourly_price = 1e-300\n", {"p.toml:3", "hourly_price is 1e-300"});
  expect_refused("[[device]]\nmatch = \"A\"\npurchase_price = 1e300\n", {"p.toml:3", "purchase_price is 1e+300"});
  expect_refused("[[device]]\nhourly_price = 1\n", {"p.toml:1", "'match'"});
  expect_refused("[[device]]\nmatch = \"\"\nhourly_price = 1\n", {"p.toml:2", "match"});
  expect_refused("[[device]]\nmatch = 5\nhourly_price = 1\n", {"p.toml:2", "match"});
  expect_refused("[[device]]\nmatch = \"A\"\nwatts = 1\n", {"p.toml:1", "'A' has no price"});
  expect_refused(device + device, {"p.toml:4", "'A' is there already"});
  expect_refused("amortisation_months = 0\n" + device, {"p.toml:1", "amortisation_months is 0"});
  expect_refused("electricity_per_kwh = -0.1\n" + device, {"p.toml:1", "electricity_per_kwh is -0.1"});
  expect_refused("currency = \"USD\"\n", {"p.toml:1", "no device"});
  expect_refused("", {"p.toml:1", "no device"});
  expect_refused("device = 3\n", {"p.toml:1", "device"});
  expect_refused("device = []\n", {"p.toml:1", "device"});
  expect_refused("device = [1, 2]\n", {"p.toml:1", "device"});
  expect_refused(device + "note = \"no end\n", {"p.toml:4", "not valid TOML"});
  expect_refused(device + "hourly_price = 2\n", {"p.toml:4", "not valid TOML"});
  expect_refused("\x01\xff", {"p.toml:1", "not valid TOML"});
}

TEST(Prices, CharactersBeyondAsciiStandInQuotesAndComments) {
  const std::string device = "[[device]]  # \u00e9tal\u00e9\nmatch = \"Gr\u00fcn \\\" \uFEF7\"\nhourly_price = 1\n";
  EXPECT_NO_THROW(prices_from_toml(device, "p.toml"));
  EXPECT_NO_THROW(prices_from_toml("\xEF\xBB\xBF" + device, "p.toml"));
  EXPECT_NO_THROW(prices_from_toml("currency = '\u00e9' # '\n" + device, "p.toml"));
  expect_refused(device + "\uFEF7 = 1\n", {"p.toml:4", "not valid TOML"});  // toml++ 3.3: unreachable code
  expect_refused(device + "note = \"a\" \uFEF7\n", {"p.toml:4", "not valid TOML"});
  expect_refused("[{a = \"b\", c\rd = 1}]\n", {"p.toml", "not valid TOML"});  // toml++ 3.3: a failed assertion
}

TEST(Prices, TheShippedTableIsWhole) {
  const PriceTable prices = load_prices(AMDAHL_SOURCE_DIR "/data/prices.toml");
  EXPECT_FALSE(prices.as_of.empty());
  for (const char* device : {"NVIDIA H100 80GB HBM3", "NVIDIA H200", "NVIDIA A100-SXM4-80GB", "NVIDIA L40S",
                             "NVIDIA GeForce RTX 4090", "NVIDIA GeForce RTX 4070 Ti SUPER", "cpu-virtual"}) {
    const DevicePrice* price = find_price(prices, device);
    ASSERT_TRUE(price) << device;
    EXPECT_TRUE(price_of_an_hour(prices, *price)) << device;
    EXPECT_FALSE(price->note.empty()) << device;
  }
  EXPECT_THROW(load_prices(AMDAHL_SOURCE_DIR "/data/no.toml"), Error);
}

}  // namespace
}  // namespace amdahl
