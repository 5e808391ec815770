#pragma once
// Collectives over tensors. Their memory travels as it lies: a tensor that is not contiguous is
// refused (internal_error).
#include <ATen/core/Tensor.h>

#include <memory>
#include <vector>

#include "gpuhpc/comm/communicator.hpp"

namespace gpuhpc {

DataType data_type_of(at::ScalarType type);  // internal_error for a type that does not travel

void all_reduce(Communicator& comm, const at::Tensor& data,
                Reduce reduce = Reduce::sum);                              // in place
void broadcast(Communicator& comm, const at::Tensor& data, int root = 0);  // in place
void all_gather(Communicator& comm, const at::Tensor& send,
                const at::Tensor& receive);  // receive: size x send's elements
void reduce_scatter(Communicator& comm, const at::Tensor& send, const at::Tensor& receive,
                    Reduce reduce = Reduce::sum);  // send: size x receive's elements

// The tensors must live until wait() has returned.
std::unique_ptr<Work> start_all_reduce(Communicator& comm, const at::Tensor& data,
                                       Reduce reduce = Reduce::sum);
std::unique_ptr<Work> start_all_gather(Communicator& comm, const at::Tensor& send,
                                       const at::Tensor& receive);
// sends[i] into receives[i], all of one type.
std::unique_ptr<Work> start_all_gathers(Communicator& comm, const std::vector<at::Tensor>& sends,
                                        const std::vector<at::Tensor>& receives);
std::unique_ptr<Work> start_reduce_scatter(Communicator& comm, const at::Tensor& send,
                                           const at::Tensor& receive, Reduce reduce = Reduce::sum);

}  // namespace gpuhpc
