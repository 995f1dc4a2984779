// Prices of devices, which the user supplies in a file: amdahl has no built-in prices. Plain data.
//
// Example:
//   const amdahl::PriceTable prices = amdahl::load_prices("prices.toml");
//   std::printf("%zu devices, in %s\n", prices.devices.size(), prices.currency.c_str());
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "amdahl/error.h"

namespace amdahl {

/// Price of one device: hourly, purchase or both.
struct DevicePrice {
  std::string match;                     // part of the device's name, case ignored
  std::optional<double> hourly_price;    // rent, above 0
  std::optional<double> purchase_price;  // of one device
  std::optional<double> watts;           // power under load
  std::string note;                      // source of the numbers
};

/// Price of a machine for a number of bought devices, without them: board, power supply, case.
struct MachinePrice {
  int64_t devices = 0;  // at least 1; unique in the table
  double purchase_price = 0;
  std::string note;
};

/// An alternative to additional devices. Its gain is an assumption of the table, never measured.
struct AlternativePrice {
  std::string name;
  double purchase_price = 0;
  std::optional<double> watts;      // additional power; total power when it replaces the device
  std::optional<double> gain_low;   // share that it adds to throughput, 0.15 is 15 %; absent when not given
  std::optional<double> gain_high;  // at least gain_low
  bool replaces_device = false;     // a larger device that replaces the existing one
  std::string instead_of;           // with replaces_device: part of the name of the replaced device
  std::optional<double> memory_gb;  // with replaces_device: its memory; 1 GB = 10^9 bytes
  std::string part = "all";         // the part of a step that it accelerates: "all" or "input"
  std::string note;
};

struct PriceTable {
  std::string source;  // price file
  std::string currency = "USD";
  std::string as_of;                          // date of the prices, free text
  std::optional<double> electricity_per_kwh;  // in `currency`
  std::optional<double> amortisation_months;  // period over which a purchase is written off, above 0
  double utilisation = 1;                     // share of that period in which the device works, in (0, 1]
  std::vector<DevicePrice> devices;
  std::vector<MachinePrice> machines;
  std::vector<AlternativePrice> alternatives;
};

/// Reads a price table from a TOML file. Error{usage} that names file, line and key when the file cannot be read, a
/// price is missing, negative or not a number, or a key is unknown. Thread-safe.
AMDAHL_API PriceTable load_prices(const std::string& path);

}  // namespace amdahl
