#include "gpuhpc/device/gpu.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <memory>

namespace gpuhpc {
namespace {

// What the library would do; one GPU, number 3b.
struct Driver {
  int sessions = 0, questions = 0, answer = 0;
};
Driver& driver() {
  static Driver one;
  return one;
}
int init() { return ++driver().sessions, 0; }
int shut_down() { return --driver().sessions, 0; }
int handle(const char* bus, void** device) {
  *device = &driver();
  return std::strcmp(bus, "0000:3b:00.0") == 0 ? 0 : 6;
}
int rates(void* device, unsigned* percent) {
  percent[0] = 87, percent[1] = 12;
  return ++driver().questions, device == &driver() ? driver().answer : 1;
}

void* function(const char* name) {
  const std::map<std::string, void*> all = {
      {"nvmlInit_v2", reinterpret_cast<void*>(&init)},
      {"nvmlShutdown", reinterpret_cast<void*>(&shut_down)},
      {"nvmlDeviceGetHandleByPciBusId_v2", reinterpret_cast<void*>(&handle)},
      {"nvmlDeviceGetUtilizationRates", reinterpret_cast<void*>(&rates)}};
  return all.contains(name) ? all.at(name) : nullptr;
}

class GpuMeterTest : public testing::Test {
 protected:
  void SetUp() override { driver() = {}; }
};

TEST_F(GpuMeterTest, TellsHowBusyTheGpuIsAndAsksNotTooOften) {
  {
    GpuMeter meter("0000:3b:00.0", function);
    EXPECT_EQ(driver().sessions, 1);
    EXPECT_EQ(meter.utilisation(), 87);
    EXPECT_EQ(meter.utilisation(), 87);
    EXPECT_EQ(driver().questions, 1);
  }
  EXPECT_EQ(driver().sessions, 0);
}

TEST_F(GpuMeterTest, SaysNothingWhereTheDriverDoesNot) {
  driver().answer = 3;  // NVML_ERROR_NOT_SUPPORTED
  EXPECT_FALSE(GpuMeter("0000:3b:00.0", function).utilisation());
  EXPECT_EQ(driver().questions, 1);
  EXPECT_FALSE(GpuMeter("0000:5e:00.0", function).utilisation());  // no such GPU
  EXPECT_FALSE(GpuMeter("0000:3b:00.0", [](const char*) { return nullptr; }).utilisation());
  EXPECT_EQ(driver().questions, 1);
  EXPECT_EQ(driver().sessions, 0);
}

// With the machine's own library, or without one.
TEST_F(GpuMeterTest, AGpuThatIsNotThereIsNoError) {
  EXPECT_FALSE(GpuMeter("ffffffff:ff:1f.0").utilisation());
}

}  // namespace
}  // namespace gpuhpc
