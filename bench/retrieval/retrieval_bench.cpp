// retrieval_bench CORPUS [--vectors FILE.h5] [--documents N] [--threads T]: TF-IDF and neighbours,
// exact and approximate, over N documents made of the corpus (texts repeated with a third of the
// words changed; vectors repeated with noise, or clustered random ones). Every answer is checked
// against a plain reference before its speed is shown: seconds are wall time, CPU seconds in
// brackets.
#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/mm.h>
#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <ctime>
#include <functional>
#include <map>
#include <numeric>
#include <set>
#include <string>

#include "gpuhpc/base/error.hpp"
#include "gpuhpc/base/random.hpp"
#include "gpuhpc/data/corpus.hpp"
#include "gpuhpc/io/matrix_file.hpp"
#include "gpuhpc/retrieval/neighbours.hpp"
#include "gpuhpc/retrieval/tfidf.hpp"
#include "gpuhpc/text/words.hpp"

namespace {

using namespace gpuhpc;

struct Arguments {
  std::string corpus, vectors;
  std::int64_t documents = 20000;
  int threads = 2;
};

void must(bool right, const char* what) {
  if (!right) throw internal_error("wrong answer: {}", what);
}

double peak_gigabytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) * 1024 / 1e9;
}

double cpu_seconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

struct Time {
  double wall, cpu;
};

template <typename Work>
auto timed(Time& time, const Work& work) {
  const auto start = std::chrono::steady_clock::now();
  const double cpu = cpu_seconds();
  auto result = work();
  time = {std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count(),
          cpu_seconds() - cpu};
  return result;
}

void show(const std::string& what, Time time, const std::string& figures) {
  fmt::print("{:44} {:8.2f} s [{:7.2f}]  {}; peak {:.2f} GB\n", what, time.wall, time.cpu, figures,
             peak_gigabytes());
  std::fflush(stdout);
}

// The corpus again and again; from the second copy on, one word in three comes from anywhere in the
// corpus.
std::vector<std::string> repeated_texts(const std::vector<std::string>& corpus,
                                        std::int64_t documents) {
  std::vector<std::vector<std::string_view>> words;
  std::vector<std::string_view> pool;
  for (const std::string& text : corpus) {
    words.emplace_back();
    for (std::size_t first = 0; first < text.size();) {
      const std::size_t last = std::min(text.find(' ', first), text.size());
      if (last > first) words.back().push_back(std::string_view(text).substr(first, last - first));
      first = last + 1;
    }
    pool.insert(pool.end(), words.back().begin(), words.back().end());
  }
  std::vector<std::string> texts;
  texts.reserve(static_cast<std::size_t>(documents));
  for (std::int64_t i = 0; i < documents; ++i) {
    RandomStream random(3, static_cast<std::uint64_t>(i));
    std::string text;
    for (const std::string_view word : words[static_cast<std::size_t>(i) % words.size()]) {
      if (!text.empty()) text += ' ';
      text +=
          i >= std::ssize(words) && random.below(3) == 0 ? pool[random.below(pool.size())] : word;
    }
    texts.push_back(std::move(text));
  }
  return texts;
}

void to_unit(std::span<float> row) {
  const double norm = std::sqrt(std::inner_product(row.begin(), row.end(), row.begin(), 0.0));
  for (float& value : row) value = static_cast<float>(value / std::max(norm, 1e-12));
}

Matrix repeated_vectors(const std::string& file, std::int64_t documents) {
  Matrix base = file.empty() ? Matrix(500, 384) : read_matrix(file);
  RandomStream seed(5, 0);
  if (file.empty()) {
    for (float& value : base.values) value = static_cast<float>(seed.uniform() - 0.5);
  }
  for (std::int64_t i = 0; i < base.rows; ++i) to_unit(base.row(i));
  const float noise = 1.4F / std::sqrt(static_cast<float>(base.columns));
  Matrix out(documents, base.columns);
  for (std::int64_t i = 0; i < documents; ++i) {
    RandomStream random(5, static_cast<std::uint64_t>(i) + 1);
    const auto row = out.row(i);
    std::copy_n(base.row(i % base.rows).begin(), row.size(), row.begin());
    if (i >= base.rows || file.empty()) {
      for (float& value : row) value += noise * static_cast<float>(random.uniform() * 2 - 1);
    }
    to_unit(row);
  }
  return out;
}

void check_vocabulary(const std::vector<std::string>& texts) {
  const std::vector<std::string> few(
      texts.begin(), texts.begin() + std::min<std::ptrdiff_t>(1000, std::ssize(texts)));
  std::map<std::string, std::int64_t> counts;
  TermWords splitter;
  for (const std::string& text : few) {
    const auto found = splitter.split(text);
    std::vector<std::string> words(found.begin(), found.end());
    std::erase_if(words, [](const std::string& word) { return is_term_stop_word(word); });
    std::set<std::string> terms(words.begin(), words.end());
    for (std::size_t i = 1; i < words.size(); ++i) terms.insert(words[i - 1] + " " + words[i]);
    for (const std::string& term : terms) ++counts[term];
  }
  const TfidfModel model = TfidfModel::fit(few);
  std::int64_t kept = 0;
  for (const auto& [term, count] : counts) {
    const bool keep =
        count >= 2 && static_cast<double>(count) <= 0.2 * static_cast<double>(few.size());
    must((model.column(term_hash(term)) >= 0) == keep,
         "vocabulary against a plain count of strings");
    kept += keep ? 1 : 0;
  }
  must(kept == model.size(), "size of the vocabulary");
}

// The best cosines of a few queries by brute force in double.
void check_queries(const Neighbours& found, std::int64_t queries, std::int64_t indexed,
                   const std::function<double(std::int64_t, std::int64_t)>& dot) {
  for (std::int64_t q = 0; q < queries; q += std::max<std::int64_t>(1, queries / 16)) {
    std::vector<double> all;
    for (std::int64_t i = 0; i < indexed; ++i) all.push_back(i == q ? 0 : dot(q, i));
    std::partial_sort(all.begin(), all.begin() + found.k, all.end(), std::greater<>());
    for (std::int64_t j = 0; j < found.k; ++j) {
      must(std::abs(all[static_cast<std::size_t>(j)] -
                    static_cast<double>(found.weights[static_cast<std::size_t>(q * found.k + j)])) <
               2e-5,
           "exact neighbours");
    }
  }
}

Neighbours first_rows(const Neighbours& all, std::int64_t rows) {
  const auto size = static_cast<std::ptrdiff_t>(rows * all.k);
  return {all.k,
          {all.indices.begin(), all.indices.begin() + size},
          {all.weights.begin(), all.weights.begin() + size}};
}

void bench_sparse(const Arguments& arguments) {
  const auto texts = repeated_texts(read_corpus(arguments.corpus).texts, arguments.documents);
  const double megabytes = std::accumulate(texts.begin(), texts.end(), 0.0,
                                           [](double sum, const std::string& t) {
                                             return sum + static_cast<double>(t.size());
                                           }) /
                           1e6;
  check_vocabulary(texts);
  Time time{};
  const TfidfModel model =
      timed(time, [&] { return TfidfModel::fit(texts, {}, arguments.threads); });
  show(fmt::format("TF-IDF fit, {} texts, {:.0f} MB", texts.size(), megabytes), time,
       fmt::format("{} terms, {:.1f} MB/s", model.size(), megabytes / time.wall));
  const SparseMatrix rows = timed(time, [&] { return model.transform(texts, arguments.threads); });
  show("TF-IDF transform", time,
       fmt::format("{} entries, {:.1f} MB/s", rows.values.size(), megabytes / time.wall));
  const SparseIndex index = timed(time, [&] { return SparseIndex(rows); });
  show("inverted index", time, "");
  const std::int64_t sample = std::min<std::int64_t>(1024, rows.rows());
  const Neighbours exact = timed(time, [&] {
    return index.exact(rows, {0, sample}, QuerySet::same, {}, arguments.threads);
  });
  check_queries(exact, sample, rows.rows(), [&](std::int64_t a, std::int64_t b) {
    double sum = 0;
    for (auto i = rows.offsets[static_cast<std::size_t>(a)],
              j = rows.offsets[static_cast<std::size_t>(b)];
         i < rows.offsets[static_cast<std::size_t>(a) + 1] &&
         j < rows.offsets[static_cast<std::size_t>(b) + 1];) {
      const auto left = rows.columns[static_cast<std::size_t>(i)],
                 right = rows.columns[static_cast<std::size_t>(j)];
      if (left == right)
        sum += static_cast<double>(rows.values[static_cast<std::size_t>(i)]) *
               static_cast<double>(rows.values[static_cast<std::size_t>(j)]);
      i += left <= right ? 1 : 0;
      j += right <= left ? 1 : 0;
    }
    return sum;
  });
  show(fmt::format("sparse neighbours, exact, {} queries", sample), time,
       fmt::format("{:.0f} queries/s", static_cast<double>(sample) / time.wall));
  const Neighbours found = timed(time, [&] {
    return index.approximate(rows, rows, {0, rows.rows()}, QuerySet::same, {}, arguments.threads);
  });
  const double share = recall(first_rows(found, sample), exact);
  must(share > 0.5, "recall of the sparse index");
  show(fmt::format("sparse neighbours, approximate, {} queries", rows.rows()), time,
       fmt::format("{:.0f} queries/s, recall@10 {:.3f}",
                   static_cast<double>(rows.rows()) / time.wall, share));
}

// LibTorch's fp32 products of the first rows with all, each offered to a list of the best: what
// dense_neighbours was before it rounded rows.
Neighbours by_plain_products(MatrixView rows, std::int64_t queries) {
  constexpr std::int64_t k = 10, block = 4096;
  Neighbours out{k, std::vector<std::int32_t>(static_cast<std::size_t>(queries * k), -1),
                 std::vector<float>(static_cast<std::size_t>(queries * k))};
  const auto tensor = [&](std::int64_t first, std::int64_t last) {
    return at::from_blob(const_cast<float*>(rows.row(first).data()), {last - first, rows.columns});
  };
  for (std::int64_t q = 0; q < queries; q += neighbour_block)
    for (std::int64_t i = 0; i < rows.rows; i += block) {
      const at::Tensor scores = at::mm(tensor(q, std::min(queries, q + neighbour_block)),
                                       tensor(i, std::min(rows.rows, i + block)).t());
      for (std::int64_t r = 0; r < scores.size(0); ++r) {
        const float* row = scores.data_ptr<float>() + r * scores.size(1);
        float* best = out.weights.data() + (q + r) * k;
        for (std::int64_t j = 0; j < scores.size(1); ++j) {
          if (!(row[j] > best[k - 1]) || i + j == q + r) continue;
          const std::ptrdiff_t at =
              std::upper_bound(best, best + k, row[j], std::greater<>()) - best;
          std::int32_t* names = out.indices.data() + (q + r) * k;
          std::copy_backward(best + at, best + k - 1, best + k);
          std::copy_backward(names + at, names + k - 1, names + k);
          best[at] = row[j], names[at] = static_cast<std::int32_t>(i + j);
        }
      }
    }
  return out;
}

void bench_exact(const Matrix& rows, std::int64_t queries) {
  const MatrixView view = rows.view();
  Time plain_time{}, time{};
  const Neighbours plain = timed(plain_time, [&] { return by_plain_products(view, queries); });
  const Neighbours exact = timed(time, [&] {
    return dense_neighbours(view.slice(0, queries), view, {0, queries}, QuerySet::same);
  });
  must(recall(plain, exact) > 0.999, "plain products against exact ones");
  check_queries(exact, queries, rows.rows, [&](std::int64_t a, std::int64_t b) {
    return std::inner_product(rows.row(a).begin(), rows.row(a).end(), rows.row(b).begin(), 0.0);
  });
  const auto figures = [&](Time took) {
    return fmt::format("{:.0f} queries/s, {:.0f} GFLOP/s", static_cast<double>(queries) / took.wall,
                       2e-9 * static_cast<double>(queries) *
                           static_cast<double>(rows.rows * rows.columns) / took.wall);
  };
  show(fmt::format("plain fp32 products, {} queries", queries), plain_time, figures(plain_time));
  show(fmt::format("dense neighbours, exact, {} queries", queries), time,
       fmt::format("{}, {:.1f} times", figures(time), plain_time.wall / time.wall));
}

void bench_dense(const Arguments& arguments) {
  at::set_num_threads(arguments.threads);
  const Matrix rows = repeated_vectors(arguments.vectors, arguments.documents);
  const MatrixView view = rows.view();
  const std::int64_t sample = std::min<std::int64_t>(2 * neighbour_block, rows.rows);
  for (const std::int64_t queries : {1, 8, 64, 512, 8192})
    bench_exact(rows, std::min<std::int64_t>(queries, rows.rows));
  Time time{};
  const Neighbours exact =
      dense_neighbours(view.slice(0, sample), view, {0, sample}, QuerySet::same);
  DenseIndex index = timed(time, [&] {
    DenseIndex made(view, {});
    made.set_lists(made.assign({0, rows.rows}));
    return made;
  });
  show(fmt::format("dense index of {} rows", rows.rows), time,
       fmt::format("{} lists", index.lists()));
  const Neighbours found = timed(time, [&] {
    return index.search(view, {0, rows.rows}, QuerySet::same);
  });
  const double share = recall(first_rows(found, sample), exact);
  must(share > 0.5, "recall of the dense index");
  show(fmt::format("dense neighbours, approximate, {} queries", rows.rows), time,
       fmt::format("{:.0f} queries/s, recall@10 {:.3f}", static_cast<double>(rows.rows) / time.wall,
                   share));
}

Arguments parse(int argc, char** argv) {
  Arguments arguments;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word.starts_with("--") && i + 1 == argc) throw usage_error("{} needs a value", word);
    if (word == "--vectors")
      arguments.vectors = argv[++i];
    else if (word == "--documents")
      arguments.documents = std::stoll(argv[++i]);
    else if (word == "--threads")
      arguments.threads = std::stoi(argv[++i]);
    else
      arguments.corpus = word;
  }
  if (arguments.corpus.empty())
    throw usage_error(
        "usage: retrieval_bench CORPUS [--vectors FILE.h5] [--documents N] [--threads T]");
  return arguments;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const Arguments arguments = parse(argc, argv);
    bench_sparse(arguments);
    bench_dense(arguments);
    return 0;
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
}
