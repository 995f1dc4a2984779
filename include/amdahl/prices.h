// What devices cost. The numbers are the user's, read from a file: amdahl knows no price of its own.
#pragma once

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

struct PriceTable {
  std::string source;  // file it was read from
  std::string currency = "USD";
  std::string as_of;                          // when the prices were looked up, free text
  std::optional<double> electricity_per_kwh;  // in `currency`
  std::optional<double> amortisation_months;  // over which a bought device is paid off, above 0
  std::vector<DevicePrice> devices;
};

/// The price table in a TOML file. Error{usage} naming file, line and key when it cannot be read, or has a price that
/// is negative, no number or missing, or a key that means nothing.
AMDAHL_API PriceTable load_prices(const std::string& path);

}  // namespace amdahl
