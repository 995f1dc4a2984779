#include "spec/prices_toml.h"

#include <fmt/format.h>
#include <toml++/toml.h>

#include <algorithm>
#include <cmath>

#include "amdahl/units.h"
#include "files/whole_file.h"

namespace amdahl {
namespace {

constexpr size_t kLongestExcerpt = 120;
// Beyond what anything costs, in any currency, and what is computed from it stays a number.
constexpr double kSmallestAmount = 1e-9, kLargestAmount = 1e15;

/// One table of the document. Every failed read throws Error{usage} as "FILE:LINE: KEY ...".
class TomlFields {
 public:
  TomlFields(const toml::table& table, std::string_view origin) : table_(table), origin_(origin) {}

  [[noreturn]] void fail(const toml::source_region& where, const std::string& problem,
                         const std::string& remedy) const {
    throw Error(
        Cause::usage,
        fmt::format("{}:{}: {}", origin_, std::max<unsigned>(where.begin.line, 1), printable(problem, kLongestExcerpt)),
        remedy);
  }
  [[noreturn]] void fail(const std::string& problem, const std::string& remedy) const {
    fail(table_.source(), problem, remedy);
  }

  void refuse_unknown(const std::vector<std::string>& known) const {
    for (const auto& [key, node] : table_) {
      const std::string name(key.str());
      if (std::find(known.begin(), known.end(), name) == known.end())
        fail(key.source(), fmt::format("key '{}' is unknown", name), choices_hint(name, known));
    }
  }

  std::optional<std::string> text(const char* name) const {
    const toml::node* node = table_.get(name);
    if (!node) return std::nullopt;
    auto value = node->value_exact<std::string>();
    if (!value || value->empty())
      fail(node->source(), fmt::format("{} is no text", name), fmt::format("{} = \"...\"", name));
    return value;
  }

  /// A number from 0, or above 0 when `positive`.
  std::optional<double> amount(const char* name, bool positive) const {
    const toml::node* node = table_.get(name);
    if (!node) return std::nullopt;
    const auto value = node->is_number() ? node->value<double>() : std::nullopt;
    const std::string remedy =
        fmt::format("a number from {} to {}, or no line for {}", positive ? kSmallestAmount : 0, kLargestAmount, name);
    if (!value || !std::isfinite(*value)) fail(node->source(), fmt::format("{} is no number", name), remedy);
    if (*value < (positive ? kSmallestAmount : 0) || *value > kLargestAmount)
      fail(node->source(), fmt::format("{} is {}", name, *value), remedy);
    return value;
  }

  const toml::node* node(const char* name) const { return table_.get(name); }

 private:
  const toml::table& table_;
  std::string_view origin_;
};

DevicePrice read_device(const TomlFields& fields) {
  fields.refuse_unknown({"match", "hourly_price", "purchase_price", "watts", "note"});
  DevicePrice price;
  const auto match = fields.text("match");
  if (!match) fields.fail("a [[device]] lacks 'match'", "match = \"H100\", a part of the device's name");
  price.match = *match;
  price.hourly_price = fields.amount("hourly_price", true);
  price.purchase_price = fields.amount("purchase_price", false);
  price.watts = fields.amount("watts", false);
  price.note = fields.text("note").value_or("");
  if (!price.hourly_price && !price.purchase_price)
    fields.fail(fmt::format("device '{}' has no price", price.match), "hourly_price or purchase_price");
  return price;
}

PriceTable read_table(const toml::table& document, std::string_view origin) {
  const TomlFields fields(document, origin);
  fields.refuse_unknown({"currency", "as_of", "electricity_per_kwh", "amortisation_months", "device"});
  PriceTable table;
  table.source = origin;
  table.currency = fields.text("currency").value_or(table.currency);
  table.as_of = fields.text("as_of").value_or("");
  table.electricity_per_kwh = fields.amount("electricity_per_kwh", false);
  table.amortisation_months = fields.amount("amortisation_months", true);
  const char* remedy = "a [[device]] with match and hourly_price for each device";
  const toml::node* list = fields.node("device");
  if (!list) fields.fail("there is no device", remedy);
  if (!list->is_array_of_tables()) fields.fail(list->source(), "device is no list of tables", remedy);
  for (const toml::node& row : *list->as_array()) {
    const TomlFields device(*row.as_table(), origin);
    DevicePrice price = read_device(device);
    for (const DevicePrice& earlier : table.devices)
      if (earlier.match == price.match)
        device.fail(fmt::format("device '{}' is there already", price.match), "one [[device]] for each match");
    table.devices.push_back(std::move(price));
  }
  return table;
}

}  // namespace

PriceTable prices_from_toml(std::string_view text, std::string_view origin) {
  toml::table document;
  try {
    document = toml::parse(text, origin);
  } catch (const toml::parse_error& error) {
    throw Error(Cause::usage,
                fmt::format("{}:{}: not valid TOML: {}", origin, error.source().begin.line,
                            printable(error.description(), kLongestExcerpt)),
                "correct the line; data/prices.toml of amdahl is an example");
  }
  return read_table(document, origin);
}

PriceTable load_prices(const std::string& path) { return prices_from_toml(read_file(path, Cause::usage), path); }

}  // namespace amdahl
