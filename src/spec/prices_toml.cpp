#include "spec/prices_toml.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <unordered_set>

#include "amdahl/units.h"
#include "files/whole_file.h"

namespace amdahl {
namespace {

/// An internal assertion of toml++ failed.
struct ParserBroke {};
[[noreturn]] void parser_broke() { throw ParserBroke(); }

}  // namespace
}  // namespace amdahl

// Damaged files violate assertions of toml++, which optimised builds rely on: for example a carriage return within a
// key. The assertions stay enabled here, as exceptions.
#undef NDEBUG
#define TOML_ASSERT(condition) ((condition) ? static_cast<void>(0) : amdahl::parser_broke())
#include <toml++/toml.h>

namespace amdahl {
namespace {

constexpr size_t kLongestExcerpt = 120;
constexpr size_t kLongestText = 1000;  // length of a name or note, which appear in tables
// Limits beyond any real price in any currency; values computed from them stay finite.
constexpr double kSmallestAmount = 1e-9, kLargestAmount = 1e15;

/// One table of the document. Every failed read throws Error{usage} with the message "FILE:LINE: KEY ...".
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
    if (value->size() > kLongestText)
      fail(node->source(), fmt::format("{} has {} bytes", name, value->size()),
           fmt::format("at most {}", kLongestText));
    return value;
  }

  /// A number at or above 0, or above 0 if `positive`.
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

  /// A share above `smallest` (or at or above it, if it is negative) and at most `largest`.
  std::optional<double> share(const char* name, double smallest, double largest) const {
    const toml::node* node = table_.get(name);
    if (!node) return std::nullopt;
    const auto value = node->is_number() ? node->value<double>() : std::nullopt;
    if (!value || !(*value > smallest) || !(*value <= largest))
      fail(node->source(), fmt::format("{} is no share", name),
           fmt::format("a number above {} and at most {}, or no line for {}", smallest, largest, name));
    return value;
  }

  std::optional<int64_t> count(const char* name) const {
    const toml::node* node = table_.get(name);
    if (!node) return std::nullopt;
    const auto value = node->value_exact<int64_t>();
    if (!value || *value < 1) fail(node->source(), fmt::format("{} is no count", name), "a whole number from 1");
    return value;
  }

  bool flag(const char* name) const {
    const toml::node* node = table_.get(name);
    if (!node) return false;
    const auto value = node->value_exact<bool>();
    if (!value) fail(node->source(), fmt::format("{} is neither true nor false", name), "true or false");
    return *value;
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
                            printable(alternative.name, kLongestExcerpt)),
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

/// The line of the first non-ASCII byte outside of single-line strings and comments; 0: none. TOML does not allow such
/// bytes there, and toml++ 3.3 fails on some of them (U+FEF7).
int64_t line_of_stray_byte(std::string_view text) {
  if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);  // a byte order mark
  int64_t line = 1;
  char inside = 0;  // '#', or the quote character of a string
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '\n') {
      ++line;
      inside = 0;
    } else if (inside == 0 && (static_cast<unsigned char>(c) & 0x80) != 0) {
      return line;
    } else if (inside == 0 && (c == '#' || c == '"' || c == '\'')) {
      const bool several_lines = c != '#' && text.substr(i, 3) == std::string(3, c);
      if (several_lines) i += 2;
      inside = several_lines ? 0 : c;
    } else if (inside == '"' && c == '\\') {
      ++i;
    } else if (inside == c && c != '#') {
      inside = 0;
    }
  }
  return 0;
}

}  // namespace

PriceTable prices_from_toml(std::string_view text, std::string_view origin) {
  if (const int64_t line = line_of_stray_byte(text); line > 0)
    throw Error(Cause::usage,
                fmt::format("{}:{}: not valid TOML: a character beyond ASCII outside of quotes", origin, line),
                "plain keys, and quotes around texts of one line");
  toml::table document;
  try {
    document = toml::parse(text, origin);
  } catch (const toml::parse_error& error) {
    throw Error(Cause::usage,
                fmt::format("{}:{}: not valid TOML: {}", origin, error.source().begin.line,
                            printable(error.description(), kLongestExcerpt)),
                "correct the line; data/prices.toml of amdahl is an example");
  } catch (const ParserBroke&) {
    throw Error(Cause::usage, fmt::format("{}: not valid TOML", origin),
                "correct its keys; data/prices.toml of amdahl is an example");
  }
  return read_table(document, origin);
}

PriceTable load_prices(const std::string& path) {
  return prices_from_toml(read_file(path, Cause::usage, kMostTableBytes), path);
}

}  // namespace amdahl
