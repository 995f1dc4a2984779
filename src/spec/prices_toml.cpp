#include "spec/toml_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_set>

#include "amdahl/error.h"
#include "files/whole_file.h"
#include "spec/toml_document.h"

namespace amdahl {
namespace {

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

MachinePrice read_machine(const TomlFields& fields) {
  fields.refuse_unknown({"devices", "purchase_price", "note"});
  MachinePrice machine;
  const auto devices = fields.count("devices");
  const auto price = fields.amount("purchase_price", false);
  if (!devices || !price) fields.fail("a [[machine]] lacks 'devices' or 'purchase_price'", "both of them");
  machine.devices = *devices;
  machine.purchase_price = *price;
  machine.note = fields.text("note").value_or("");
  return machine;
}

AlternativePrice read_alternative(const TomlFields& fields) {
  fields.refuse_unknown({"name", "purchase_price", "watts", "gain_low", "gain_high", "replaces_device", "instead_of",
                         "memory_gb", "part", "note"});
  constexpr double kLargestGain = 100;  // a factor of 100 is not a plausible upgrade
  AlternativePrice alternative;
  const auto name = fields.text("name");
  const auto price = fields.amount("purchase_price", false);
  if (!name || !price) fields.fail("an [[alternative]] lacks 'name' or 'purchase_price'", "both of them");
  alternative.name = *name;
  alternative.purchase_price = *price;
  alternative.watts = fields.amount("watts", false);
  alternative.gain_low = fields.share("gain_low", -1, kLargestGain);
  alternative.gain_high = fields.share("gain_high", -1, kLargestGain);
  alternative.replaces_device = fields.flag("replaces_device");
  alternative.instead_of = fields.text("instead_of").value_or("");
  alternative.memory_gb = fields.amount("memory_gb", true);
  if (alternative.replaces_device == alternative.instead_of.empty() ||
      (alternative.memory_gb && !alternative.replaces_device))
    fields.fail(fmt::format("alternative '{}': replaces_device and instead_of belong together, memory_gb to both",
                            printable(alternative.name, kLongestTomlExcerpt)),
                "replaces_device = true and instead_of = \"H100\", a part of the device's name, or neither");
  alternative.part = fields.text("part").value_or(alternative.part);
  alternative.note = fields.text("note").value_or("");
  if (alternative.gain_low.has_value() != alternative.gain_high.has_value() ||
      (alternative.gain_low && *alternative.gain_low > *alternative.gain_high))
    fields.fail(fmt::format("alternative '{}' has no range of gain", alternative.name),
                "gain_low and gain_high, the same number twice if it is one, or neither");
  const std::vector<std::string> parts{"all", "input"};
  if (std::find(parts.begin(), parts.end(), alternative.part) == parts.end())
    fields.fail(fmt::format("part '{}' is unknown", alternative.part), choices_hint(alternative.part, parts));
  return alternative;
}

/// The tables of a list; empty when the list is missing.
std::vector<const toml::table*> tables_of(const TomlFields& fields, const char* name, const char* remedy) {
  std::vector<const toml::table*> tables;
  const toml::node* list = fields.node(name);
  if (!list) return tables;
  if (!list->is_array_of_tables()) fields.fail(list->source(), fmt::format("{} is no list of tables", name), remedy);
  for (const toml::node& row : *list->as_array()) tables.push_back(row.as_table());
  return tables;
}

/// Amortisation in months: given as months or as years, not both.
std::optional<double> amortisation_of(const TomlFields& fields) {
  constexpr double kMonthsPerYear = 12;
  const auto months = fields.amount("amortisation_months", true), years = fields.amount("amortisation_years", true);
  if (months && years) fields.fail("amortisation_years with amortisation_months", "one of them");
  return years ? *years * kMonthsPerYear : months;
}

void read_devices(const TomlFields& fields, std::string_view origin, PriceTable& table) {
  const char* remedy = "a [[device]] with match and hourly_price for each device";
  if (!fields.node("device")) fields.fail("there is no device", remedy);
  std::unordered_set<std::string> matches;
  for (const toml::table* row : tables_of(fields, "device", remedy)) {
    const TomlFields device(*row, origin);
    DevicePrice price = read_device(device);
    if (!matches.insert(price.match).second)
      device.fail(fmt::format("device '{}' is there already", price.match), "one [[device]] for each match");
    table.devices.push_back(std::move(price));
  }
}

PriceTable read_table(const toml::table& document, std::string_view origin) {
  const TomlFields fields(document, origin);
  fields.refuse_unknown({"currency", "as_of", "electricity_per_kwh", "amortisation_months", "amortisation_years",
                         "utilisation", "device", "machine", "alternative"});
  PriceTable table;
  table.source = origin;
  table.currency = fields.text("currency").value_or(table.currency);
  table.as_of = fields.text("as_of").value_or("");
  table.electricity_per_kwh = fields.amount("electricity_per_kwh", false);
  table.amortisation_months = amortisation_of(fields);
  table.utilisation = fields.share("utilisation", 0, 1).value_or(table.utilisation);
  read_devices(fields, origin, table);
  std::unordered_set<int64_t> counts;
  for (const toml::table* row : tables_of(fields, "machine", "a [[machine]] for each number of devices")) {
    const TomlFields machine(*row, origin);
    table.machines.push_back(read_machine(machine));
    if (const int64_t devices = table.machines.back().devices; !counts.insert(devices).second)
      machine.fail(fmt::format("a machine for {} is there already", devices),
                   "one [[machine]] for each number of devices");
  }
  for (const toml::table* row : tables_of(fields, "alternative", "an [[alternative]] for each"))
    table.alternatives.push_back(read_alternative(TomlFields(*row, origin)));
  return table;
}

}  // namespace

PriceTable prices_from_toml(std::string_view text, std::string_view origin) {
  return read_table(parse_toml(text, origin, "data/prices.toml"), origin);
}

PriceTable load_prices(const std::string& path) {
  return prices_from_toml(read_file(path, Cause::usage, kMostTableBytes), path);
}

}  // namespace amdahl
