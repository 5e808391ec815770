#pragma once
// A communicator that hands everything to another: tests change what they want.
#include "gpuhpc/comm/communicator.hpp"

namespace gpuhpc {

class OverAnother : public Communicator {
 public:
  explicit OverAnother(Communicator& other) : other_(other) {}
  int rank() const override { return other_.rank(); }
  int size() const override { return other_.size(); }
  int node_rank() const override { return other_.node_rank(); }
  int node_size() const override { return other_.node_size(); }
  std::string host() const override { return other_.host(); }
  void barrier() override { other_.barrier(); }
  void all_reduce(void* data, std::int64_t count, DataType type, Reduce reduce) override {
    other_.all_reduce(data, count, type, reduce);
  }
  void broadcast(void* data, std::int64_t count, DataType type, int root) override {
    other_.broadcast(data, count, type, root);
  }
  void all_gather(const void* send, std::int64_t count, DataType type, void* receive) override {
    other_.all_gather(send, count, type, receive);
  }
  void all_gather_ragged(const void* send, std::int64_t count, DataType type, void* receive,
                         std::span<const std::int64_t> counts) override {
    other_.all_gather_ragged(send, count, type, receive, counts);
  }
  void reduce_scatter(const void* send, void* receive, std::int64_t count, DataType type,
                      Reduce reduce) override {
    other_.reduce_scatter(send, receive, count, type, reduce);
  }

 private:
  Communicator& other_;
};

}  // namespace gpuhpc
