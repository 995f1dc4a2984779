#include "amdahl/model_spec.h"

#include <gtest/gtest.h>

namespace amdahl {
namespace {

TEST(ModelSpec, CountsTheStudysFourModels) {
  EXPECT_EQ(find_model_preset("medium").num_parameters(), 54'403);
  EXPECT_EQ(find_model_preset("large").num_parameters(), 2'021'379);
  EXPECT_EQ(find_model_preset("medium-258k").num_parameters(), 258'432);
  EXPECT_EQ(find_model_preset("large-6.9m").num_parameters(), 6'885'376);
}

TEST(ModelSpec, NamesTheNearestPreset) {
  try {
    find_model_preset("medum");
    FAIL() << "an unknown preset was accepted";
  } catch (const Error& e) {
    EXPECT_EQ(e.cause(), Cause::usage);
    EXPECT_NE(e.remedy().find("medium"), std::string::npos);
  }
}

TEST(ModelSpec, RefusesWhatCannotBeTrained) {
  ModelSpec model = find_model_preset("medium");
  model.layers[1].units = 0;
  EXPECT_THROW(model.validate(), Error);
  model = find_model_preset("medium");
  model.layers[0].dropout = 1.0;
  EXPECT_THROW(model.validate(), Error);
  model = find_model_preset("medium");
  model.layers[0].activation = Activation::none;
  EXPECT_THROW(model.validate(), Error);
  for (const ModelSpec& preset : model_presets()) EXPECT_NO_THROW(preset.validate());
}

}  // namespace
}  // namespace amdahl
