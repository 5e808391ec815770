#include "gpuhpc/app/application.hpp"
#include "gpuhpc/comm/mpi.hpp"

int main(int argc, char** argv) {
  gpuhpc::MpiSession mpi(&argc, &argv);
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  const auto world = gpuhpc::MpiSession::world();
  return gpuhpc::run_application(*world, arguments, [](int code) { gpuhpc::MpiSession::abort(code); });
}
