#pragma once
// Collectives over ranks. The object is injected; size 1 is the identity. Buffers are contiguous
// host memory. Every rank must call the same collectives in the same order.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "gpuhpc/comm/options.hpp"

namespace gpuhpc {

enum class DataType { float32, float64, bfloat16, float16, int32, int64, uint8 };
// tree_sum adds in one fixed binary tree of the rank numbers, (0 + 1) + (2 + 3): floats come out
// with the same bits as if fewer ranks had added the same parts in that tree. As fast as sum, which
// adds rank after rank. (NCCL adds both in an order of its own.)
enum class Reduce { sum, max, min, tree_sum };
std::size_t size_of(DataType type);  // bytes

template <typename T>
constexpr DataType data_type_of() {
  if constexpr (std::is_same_v<T, float>)
    return DataType::float32;
  else if constexpr (std::is_same_v<T, double>)
    return DataType::float64;
  else if constexpr (std::is_same_v<T, std::int32_t>)
    return DataType::int32;
  else if constexpr (std::is_same_v<T, std::int64_t>)
    return DataType::int64;
  else {
    static_assert(sizeof(T) == 1, "no wire type");
    return DataType::uint8;
  }
}

// A collective under way. Its buffers belong to it until wait() returns; destroying it waits, too.
class Work {
 public:
  virtual ~Work() = default;
  virtual void wait() = 0;  // throws what the collective failed with
};

class PeerBoard;

class Communicator {
 public:
  virtual ~Communicator() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  virtual int node_rank() const = 0;  // rank among the ranks of this host
  virtual int node_size() const = 0;
  virtual std::string host() const = 0;

  // Time limit and checking of the collectives that follow; on all ranks between the same two
  // collectives.
  virtual void configure(const ParallelOptions&) {}
  // For a communicator that is built on this one; null where nobody can be lost. Lives as long as
  // this object.
  virtual PeerBoard* peer_board() { return nullptr; }

  // Throws peer when a collective failed behind its wait(): where wait() only orders streams, what
  // was read since may be anything.
  virtual void check() {}

  virtual void barrier() = 0;
  virtual void all_reduce(void* data, std::int64_t count, DataType type,
                          Reduce reduce) = 0;                                           // in place
  virtual void broadcast(void* data, std::int64_t count, DataType type, int root) = 0;  // in place
  virtual void all_gather(const void* send, std::int64_t count, DataType type,
                          void* receive) = 0;  // receive: size x count
  virtual void all_gather_ragged(const void* send, std::int64_t count, DataType type, void* receive,
                                 std::span<const std::int64_t> counts) = 0;  // counts: one per rank
  virtual void reduce_scatter(const void* send, void* receive, std::int64_t count, DataType type,
                              Reduce reduce) = 0;  // send: size x count

  // The same, beside other work of this thread. Every rank starts them in the same order, blocking
  // ones included.
  virtual std::unique_ptr<Work> start_all_reduce(void* data, std::int64_t count, DataType type,
                                                 Reduce reduce);
  virtual std::unique_ptr<Work> start_reduce_scatter(const void* send, void* receive,
                                                     std::int64_t count, DataType type,
                                                     Reduce reduce);
  virtual std::unique_ptr<Work> start_all_gather(const void* send, std::int64_t count,
                                                 DataType type, void* receive);
  // Several at once, for which NCCL launches one kernel.
  struct Gather {
    const void* send;
    std::int64_t count;  // of `send`
    void* receive;
  };
  virtual std::unique_ptr<Work> start_all_gathers(std::span<const Gather> gathers, DataType type);

  template <typename T>
  void all_reduce(std::span<T> data, Reduce reduce = Reduce::sum) {
    all_reduce(data.data(), std::ssize(data), data_type_of<T>(), reduce);
  }
  template <typename T>
  T all_reduce_value(T value, Reduce reduce = Reduce::sum) {
    all_reduce(&value, 1, data_type_of<T>(), reduce);
    return value;
  }
  template <typename T>
  void broadcast(std::span<T> data, int root = 0) {
    broadcast(data.data(), std::ssize(data), data_type_of<T>(), root);
  }
  // The pieces of all ranks one behind the other, in rank order; every rank gets the whole.
  template <typename T>
  std::vector<T> all_gather_v(std::span<const T> mine);
  template <typename T>
  std::vector<std::vector<T>> all_gather_lists(std::span<const std::vector<T>> mine);
  std::string broadcast_string(std::string text, int root = 0);
  std::vector<std::string> all_gather_strings(
      const std::string& mine);  // one per rank, in rank order
  bool is_root() const { return rank() == 0; }
};

template <typename T>
std::vector<T> Communicator::all_gather_v(std::span<const T> mine) {
  std::vector<std::int64_t> counts(static_cast<std::size_t>(size()));
  const std::int64_t count = std::ssize(mine);
  all_gather(&count, 1, DataType::int64, counts.data());
  std::int64_t total = 0;
  for (const auto c : counts) total += c;
  std::vector<T> all(static_cast<std::size_t>(total));
  all_gather_ragged(mine.data(), count, data_type_of<T>(), all.data(), counts);
  return all;
}

template <typename T>
std::vector<std::vector<T>> Communicator::all_gather_lists(std::span<const std::vector<T>> mine) {
  std::vector<std::int64_t> sizes;
  std::vector<T> flat;
  for (const std::vector<T>& list : mine) {
    sizes.push_back(std::ssize(list));
    flat.insert(flat.end(), list.begin(), list.end());
  }
  sizes = all_gather_v(std::span<const std::int64_t>(sizes));
  flat = all_gather_v(std::span<const T>(flat));
  std::vector<std::vector<T>> lists;
  auto at = flat.begin();
  for (const std::int64_t size : sizes) {
    lists.emplace_back(at, at + size);
    at += size;
  }
  return lists;
}

std::unique_ptr<Communicator> make_single_communicator();

}  // namespace gpuhpc
