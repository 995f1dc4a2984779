// An Offer is stored as a validator that accepts everything and has the choices in its name: it is attached to the
// option, and affects neither parsing nor --help.
#include "cli/offers.h"

#include <fmt/format.h>

#include <string_view>

#include "cli/option_values.h"

namespace amdahl::cli {
namespace {

constexpr std::string_view kOne = "offer-one:", kSeveral = "offer-several:", kFiles = "offer-files";

void add_offer(CLI::App* app, const std::string& option, const std::string& name) {
  app->get_option(option)->check(CLI::Validator([](std::string&) { return std::string(); }, "", name));
}

}  // namespace

void offer(CLI::App* app, const std::string& option, const std::vector<std::string>& choices) {
  add_offer(app, option, fmt::format("{}{}", kOne, fmt::join(choices, ",")));
}

void offer_several(CLI::App* app, const std::string& option, const std::vector<std::string>& choices) {
  add_offer(app, option, fmt::format("{}{}", kSeveral, fmt::join(choices, ",")));
}

void offer_lists(CLI::App* app, std::initializer_list<const char*> options) {
  for (const char* option : options) offer_several(app, option, {});
}

void offer_files(CLI::App* app, std::initializer_list<const char*> options) {
  for (const char* option : options) add_offer(app, option, std::string(kFiles));
}

Offer offer_of(CLI::Option& option) {
  Offer offer;
  for (int i = 0;; ++i) {
    std::string name;
    try {
      name = option.get_validator(i)->get_name();
    } catch (const CLI::OptionNotFound&) {  // CLI11 has no other means to count them
      return offer;
    }
    offer.files = offer.files || name == kFiles;
    offer.several = offer.several || name.starts_with(kSeveral);
    for (const std::string_view kind : {kOne, kSeveral})
      if (name.starts_with(kind))
        for (const std::string& choice : split_list(name.substr(kind.size()))) offer.choices.push_back(choice);
  }
}

}  // namespace amdahl::cli
