#include "gpuhpc/comm/tensors.hpp"

#include "gpuhpc/base/error.hpp"

namespace gpuhpc {
namespace {

void* memory_of(const at::Tensor& tensor) {
  if (!tensor.is_contiguous())
    throw internal_error("a tensor in a collective is not contiguous; call contiguous() first");
  return tensor.data_ptr();
}

// The tensor with `size` times as many elements as the other, both of one type.
void check_pair(const at::Tensor& whole, const at::Tensor& part, int size) {
  if (whole.scalar_type() != part.scalar_type())
    throw internal_error("the tensors of a collective have different types");
  if (whole.numel() != part.numel() * size)
    throw internal_error(
        "a collective of {} ranks over {} and {} elements; the first must be {} times the second",
        size, whole.numel(), part.numel(), size);
}

}  // namespace

DataType data_type_of(at::ScalarType type) {
  switch (type) {
    case at::kFloat:
      return DataType::float32;
    case at::kDouble:
      return DataType::float64;
    case at::kBFloat16:
      return DataType::bfloat16;
    case at::kHalf:
      return DataType::float16;
    case at::kInt:
      return DataType::int32;
    case at::kLong:
      return DataType::int64;
    case at::kByte:
      return DataType::uint8;
    default:
      throw internal_error("tensors of type {} do not travel", c10::toString(type));
  }
}

void all_reduce(Communicator& comm, const at::Tensor& data, Reduce reduce) {
  start_all_reduce(comm, data, reduce)->wait();
}
void broadcast(Communicator& comm, const at::Tensor& data, int root) {
  comm.broadcast(memory_of(data), data.numel(), data_type_of(data.scalar_type()), root);
}
void all_gather(Communicator& comm, const at::Tensor& send, const at::Tensor& receive) {
  start_all_gather(comm, send, receive)->wait();
}
void reduce_scatter(Communicator& comm, const at::Tensor& send, const at::Tensor& receive,
                    Reduce reduce) {
  start_reduce_scatter(comm, send, receive, reduce)->wait();
}

std::unique_ptr<Work> start_all_reduce(Communicator& comm, const at::Tensor& data, Reduce reduce) {
  return comm.start_all_reduce(memory_of(data), data.numel(), data_type_of(data.scalar_type()),
                               reduce);
}
std::unique_ptr<Work> start_all_gather(Communicator& comm, const at::Tensor& send,
                                       const at::Tensor& receive) {
  check_pair(receive, send, comm.size());
  return comm.start_all_gather(memory_of(send), send.numel(), data_type_of(send.scalar_type()),
                               memory_of(receive));
}
std::unique_ptr<Work> start_all_gathers(Communicator& comm, const std::vector<at::Tensor>& sends,
                                        const std::vector<at::Tensor>& receives) {
  std::vector<Communicator::Gather> gathers;
  for (std::size_t i = 0; i < sends.size(); ++i) {
    check_pair(receives[i], sends[i], comm.size());
    gathers.push_back({memory_of(sends[i]), sends[i].numel(), memory_of(receives[i])});
  }
  return comm.start_all_gathers(gathers, data_type_of(sends.at(0).scalar_type()));
}
std::unique_ptr<Work> start_reduce_scatter(Communicator& comm, const at::Tensor& send,
                                           const at::Tensor& receive, Reduce reduce) {
  check_pair(send, receive, comm.size());
  return comm.start_reduce_scatter(memory_of(send), memory_of(receive), receive.numel(),
                                   data_type_of(receive.scalar_type()), reduce);
}

}  // namespace gpuhpc
