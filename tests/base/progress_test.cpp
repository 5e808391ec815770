// What a terminal is sent, through a real one.
#include "gpuhpc/base/progress.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <pty.h>
#include <unistd.h>

#include <algorithm>
#include <thread>

namespace gpuhpc {
namespace {

using testing::ContainsRegex;
using testing::HasSubstr;

// Standard error is a terminal of that width for its life.
class Terminal {
 public:
  explicit Terminal(unsigned short columns) {
    winsize size{24, columns, 0, 0};
    if (openpty(&master_, &slave_, nullptr, nullptr, &size) != 0)
      ADD_FAILURE() << "no pseudo-terminal";
    before_ = dup(STDERR_FILENO);
    dup2(slave_, STDERR_FILENO);
  }
  ~Terminal() {
    dup2(before_, STDERR_FILENO);
    for (const int file : {before_, slave_, master_}) close(file);
  }
  std::string sent() const {
    std::string text;
    char buffer[4096];
    pollfd ready{master_, POLLIN, 0};
    while (poll(&ready, 1, 20) > 0)
      text.append(buffer, static_cast<std::size_t>(
                              std::max<ssize_t>(0, read(master_, buffer, sizeof(buffer)))));
    return text;
  }

 private:
  int master_ = -1, slave_ = -1, before_ = -1;
};

// What stands in each line of the terminal at any time: text between line ends and wipes.
std::vector<std::string> drawn(const std::string& sent) {
  std::vector<std::string> texts(1);
  for (const char c : sent) {
    if (c == '\r' || c == '\n')
      texts.emplace_back();
    else
      texts.back() += c;
  }
  return texts;
}

void pause() { std::this_thread::sleep_for(std::chrono::milliseconds(210)); }

TEST(Progress, ALineFitsItsTerminalAndIsDrawnOver) {
  for (const unsigned short columns : {80, 40, 0}) {  // 0: not known
    const Terminal terminal(columns);
    {
      Progress progress(make_console_log(0), "training", 12345678, "steps", true);
      for (int i = 0; i < 3; ++i)
        pause(),
            progress.advance(1, "loss 1.2345, 1234567 tokens/s, and more than any line can hold");
    }
    const std::string sent = terminal.sent();
    std::size_t lines = 0;
    for (const std::string& text : drawn(sent)) {
      if (!text.starts_with("\033[Ktraining: ") || text.find(" in 0:0") != text.npos) continue;
      ++lines;
      EXPECT_LT(text.size() - 3, columns == 0 ? 80u : columns) << text;
      EXPECT_THAT(text, HasSubstr(columns == 40 ? "/s" : " left"));
    }
    EXPECT_EQ(lines, 3u) << sent;
    EXPECT_EQ(std::ranges::count(sent, '\n'), 1) << "only that of the end: " << sent;
  }
}

TEST(Progress, ALogLineDoesNotStandBehindIt) {
  const Terminal terminal(80);
  const Log log = make_console_log(0);
  Progress progress(log, "training", 10, "steps", true);
  pause();
  progress.advance(1);
  log->info("epoch 1");
  progress.finish();
  bool said = false;
  for (const std::string& text : drawn(terminal.sent())) {
    if (text.find("epoch 1") == text.npos) continue;
    said = true;
    EXPECT_TRUE(text.starts_with("\033[K")) << text;
    EXPECT_THAT(text, testing::Not(HasSubstr("training")));
  }
  EXPECT_TRUE(said);
}

TEST(Progress, DoneBeforeCountsButNotForTheRate) {
  const Terminal terminal(80);
  Progress progress(make_console_log(0), "training", 1000, "steps", true);
  progress.resume(900);
  pause();
  progress.advance(1);
  // At least 210 ms for one; where others need the processor, more.
  EXPECT_THAT(terminal.sent(), ContainsRegex("901/1000 steps, [2-4]\\.[0-9]+/s, 0:[2-4]"));
}

}  // namespace
}  // namespace gpuhpc
