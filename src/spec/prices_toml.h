// Price tables as TOML, a format that allows comments.
#pragma once

#include <string_view>

#include "amdahl/report.h"

namespace amdahl {

/// Parses a price table; `origin` names the file in errors, as in "prices.toml:12: ...". Throws what load_prices
/// throws.
PriceTable prices_from_toml(std::string_view text, std::string_view origin);

}  // namespace amdahl
