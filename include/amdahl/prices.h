// What devices cost. The numbers are the user's, read from a file: amdahl knows no price of its own.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "amdahl/error.h"

namespace amdahl {

/// What one device costs. A row has an hourly or a purchase price, or both.
struct DevicePrice {
  std::string match;                     // part of the device's name, upper or lower case
  std::optional<double> hourly_price;    // to rent it, above 0
  std::optional<double> purchase_price;  // to buy it
  std::optional<double> watts;           // it draws under load
  std::string note;                      // where the numbers come from
};

/// What a machine for so many bought devices costs beside them: board, power supply, case.
struct MachinePrice {
  int64_t devices = 0;  // at least 1; each number once
  double purchase_price = 0;
  std::string note;
};

/// What the money could buy instead of further devices. Its gain is an assumption of the table, never measured.
struct AlternativePrice {
  std::string name;
  double purchase_price = 0;
  std::optional<double> watts;      // it draws more (instead, when it replaces the device)
  std::optional<double> gain_low;   // share of throughput that it adds: 0.15 is 15 %; absent when nobody said
  std::optional<double> gain_high;  // at least gain_low
  bool replaces_device = false;     // a bigger device in the place of the one there is
  std::string instead_of;           // of such: part of the name of the device that it is compared with
  std::optional<double> memory_gb;  // of such: more than that does not fit into it; 1 GB = 10^9 bytes
  std::string part = "all";         // of a step that gets faster: "all", or "input"
  std::string note;
};

struct PriceTable {
  std::string source;  // file it was read from
  std::string currency = "USD";
  std::string as_of;                          // when the prices were looked up, free text
  std::optional<double> electricity_per_kwh;  // in `currency`
  std::optional<double> amortisation_months;  // over which a bought device is paid off, above 0
  double utilisation = 1;                     // share of those hours in which it works, above 0 and at most 1
  std::vector<DevicePrice> devices;
  std::vector<MachinePrice> machines;
  std::vector<AlternativePrice> alternatives;
};

/// The price table in a TOML file. Error{usage} naming file, line and key when it cannot be read, or has a price that
/// is negative, no number or missing, or a key that means nothing.
AMDAHL_API PriceTable load_prices(const std::string& path);

}  // namespace amdahl
