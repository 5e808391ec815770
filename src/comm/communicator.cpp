#include "gpuhpc/comm/communicator.hpp"

#include <unistd.h>

#include <cstring>

namespace gpuhpc {

std::size_t size_of(DataType type) {
  switch (type) {
    case DataType::float64:
    case DataType::int64:
      return 8;
    case DataType::float32:
    case DataType::int32:
      return 4;
    case DataType::bfloat16:
    case DataType::float16:
      return 2;
    case DataType::uint8:
      return 1;
  }
  return 0;
}

namespace {

class Finished final : public Work {
 public:
  void wait() override {}
};

class Several final : public Work {
 public:
  explicit Several(std::vector<std::unique_ptr<Work>> works) : works_(std::move(works)) {}
  void wait() override {
    for (const auto& work : works_) work->wait();
  }

 private:
  std::vector<std::unique_ptr<Work>> works_;
};

}  // namespace

// Without an engine of its own a communicator finishes the collective at once.
std::unique_ptr<Work> Communicator::start_all_reduce(void* data, std::int64_t count, DataType type,
                                                     Reduce reduce) {
  all_reduce(data, count, type, reduce);
  return std::make_unique<Finished>();
}

std::unique_ptr<Work> Communicator::start_reduce_scatter(const void* send, void* receive,
                                                         std::int64_t count, DataType type,
                                                         Reduce reduce) {
  reduce_scatter(send, receive, count, type, reduce);
  return std::make_unique<Finished>();
}

std::unique_ptr<Work> Communicator::start_all_gather(const void* send, std::int64_t count,
                                                     DataType type, void* receive) {
  all_gather(send, count, type, receive);
  return std::make_unique<Finished>();
}

std::unique_ptr<Work> Communicator::start_all_gathers(std::span<const Gather> gathers,
                                                      DataType type) {
  std::vector<std::unique_ptr<Work>> works;
  for (const Gather& one : gathers)
    works.push_back(start_all_gather(one.send, one.count, type, one.receive));
  return std::make_unique<Several>(std::move(works));
}

std::string Communicator::broadcast_string(std::string text, int root) {
  std::int64_t length = std::ssize(text);
  broadcast(&length, 1, DataType::int64, root);
  text.resize(static_cast<std::size_t>(length));
  broadcast(text.data(), length, DataType::uint8, root);
  return text;
}

std::vector<std::string> Communicator::all_gather_strings(const std::string& mine) {
  const std::int64_t length = std::ssize(mine);
  const std::vector<std::int64_t> lengths = all_gather_v(std::span(&length, 1));
  const std::vector<char> all = all_gather_v(std::span<const char>(mine));
  std::vector<std::string> texts;
  auto at = all.begin();
  for (const std::int64_t n : lengths) {
    texts.emplace_back(at, at + n);
    at += n;
  }
  return texts;
}

namespace {

class SingleCommunicator final : public Communicator {
 public:
  int rank() const override { return 0; }
  int size() const override { return 1; }
  int node_rank() const override { return 0; }
  int node_size() const override { return 1; }
  std::string host() const override {
    char name[256] = {};
    gethostname(name, sizeof(name) - 1);
    return name;
  }
  void barrier() override {}
  void all_reduce(void*, std::int64_t, DataType, Reduce) override {}
  void broadcast(void*, std::int64_t, DataType, int) override {}
  void all_gather(const void* send, std::int64_t count, DataType type, void* receive) override {
    copy(send, count, type, receive);
  }
  void all_gather_ragged(const void* send, std::int64_t count, DataType type, void* receive,
                         std::span<const std::int64_t>) override {
    copy(send, count, type, receive);
  }
  void reduce_scatter(const void* send, void* receive, std::int64_t count, DataType type,
                      Reduce) override {
    copy(send, count, type, receive);
  }

 private:
  static void copy(const void* from, std::int64_t count, DataType type, void* to) {
    if (count > 0 && from != to)
      std::memmove(to, from, static_cast<std::size_t>(count) * size_of(type));
  }
};

}  // namespace

std::unique_ptr<Communicator> make_single_communicator() {
  return std::make_unique<SingleCommunicator>();
}

}  // namespace gpuhpc
