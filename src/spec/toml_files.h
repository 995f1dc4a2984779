// Documents of users in TOML: prices, kinds of GPUs.
#pragma once

#include <string_view>

#include "amdahl/machine.h"
#include "amdahl/report.h"

namespace amdahl {

/// Parses a price table; `origin` names the file in errors, as in "prices.toml:12: ...". Throws what load_prices
/// throws.
PriceTable prices_from_toml(std::string_view text, std::string_view origin);

/// Parses options; `origin` names the file in errors. Throws what load_settings throws.
std::vector<OptionSetting> settings_from_toml(std::string_view text, std::string_view origin);

/// Parses a kind of GPU; `origin` names the file in errors, as in "gpu.toml:3: ...". Throws what load_gpu_kind throws.
GpuKind gpu_kind_from_toml(std::string_view text, std::string_view origin);

}  // namespace amdahl
