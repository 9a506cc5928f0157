#include "reference/cuda/cuda_oracle.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <optional>
#include <stdexcept>
#include <type_traits>
#include <utility>
#include <vector>

#include "reference/cuda/pack.h"
#include "reference/call/sequences.h"
#include "reference/gradient_setup.h"
#include "reference/merge.h"
#include "reference/model/error_cap.h"
#include "reference/rows/visibility.h"

namespace attnfuzz {
namespace {

using namespace cuda;

constexpr size_t kMostResults = size_t{512} << 20;
constexpr double kMostPairs = 0x1p24;     // of a backward pass, each with 33 bytes of scratch
constexpr int64_t kMostGroups = 65535;    // the blocks of a grid in its second dimension

std::string in_words(const char* what, cudaError_t error) {
  return std::string("the oracle on the GPU: ") + what + ": " + cudaGetErrorName(error) + ", " +
         cudaGetErrorString(error);
}

void check(const char* what, cudaError_t error) {
  if (error != cudaSuccess) throw std::runtime_error(in_words(what, error));
}

// Thrown if there is too little free memory. The oracle still takes smaller problems.
struct NoMemory {};

// Memory that grows and is kept until the end. Throws NoMemory.
template <cudaError_t (*allocate)(void**, size_t), cudaError_t (*release)(void*)>
class Room {
 public:
  ~Room() { release(memory_); }
  std::byte* of(size_t bytes) {
    if (bytes <= size_) return memory_;
    release(memory_);
    memory_ = nullptr;
    size_ = 0;
    const size_t more = std::max<size_t>(2 * bytes, size_t{1} << 20);
    void* memory = nullptr;
    const cudaError_t error = allocate(&memory, more);
    if (error == cudaErrorMemoryAllocation) {
      cudaGetLastError();  // clears the error, which NoMemory reports
      throw NoMemory();
    }
    check("memory", error);
    memory_ = static_cast<std::byte*>(memory);
    size_ = more;
    return memory_;
  }

 private:
  std::byte* memory_ = nullptr;
  size_t size_ = 0;
};
cudaError_t pinned(void** memory, size_t bytes) { return cudaMallocHost(memory, bytes); }
cudaError_t on_device(void** memory, size_t bytes) { return cudaMalloc(memory, bytes); }

// The offsets of the results of `rows` rows in one block of bytes.
struct Results {
  size_t o, o_bound, o_exact, lse, lse_bound, rule, state, bytes;

  Results(size_t rows, size_t columns, bool exact) {
    size_t at = 0;
    const auto take = [&](size_t count) { return std::exchange(at, at + count); };
    o = take(rows * columns * sizeof(double));
    o_bound = take(rows * columns * sizeof(double));
    o_exact = take(exact ? rows * columns * sizeof(double) : 0);
    lse = take(rows * sizeof(double));
    lse_bound = take(rows * sizeof(double));
    rule = take(rows * columns);
    state = take(rows);
    bytes = at;
  }
};

// The same for the elements of a backward pass.
struct GradientResults {
  struct Part {
    size_t value, bound, rule, elements;
  };
  Part dq, dk, dv, dsink;
  size_t state, bytes = 0;

  explicit GradientResults(const GradientsInput& in) {
    const auto slots = static_cast<size_t>(in.rows.groups) * static_cast<size_t>(in.rows.keys);
    const auto rows = static_cast<size_t>(in.rows.rows), dim_qk = static_cast<size_t>(in.rows.dim_qk);
    dq = numbers(rows * dim_qk);
    dk = numbers(slots * dim_qk);
    dv = numbers(slots * static_cast<size_t>(in.rows.dim_v));
    dsink = numbers(in.sinks ? static_cast<size_t>(in.heads_q) : 0);
    for (Part* part : {&dq, &dk, &dv, &dsink}) part->rule = std::exchange(bytes, bytes + part->elements);
    state = std::exchange(bytes, bytes + rows);
  }

 private:
  Part numbers(size_t elements) {
    Part part = {.value = bytes, .bound = bytes + elements * sizeof(double), .rule = 0, .elements = elements};
    bytes += 2 * elements * sizeof(double);
    return part;
  }
};

template <class T>
T* at(std::byte* block, size_t offset) {
  return reinterpret_cast<T*>(block + offset);
}

template <class T>
void relocate(T*& pointer, std::byte* block) {
  pointer = reinterpret_cast<T*>(block + reinterpret_cast<uintptr_t>(pointer));
}

class CudaOracle final : public FastOracle {
 public:
  CudaOracle(double least_work, int64_t most_shared) : least_work_(least_work), shared_limit_(most_shared) {}

  bool open(std::string* why) {
    const auto failed = [&](const char* what, cudaError_t error) {
      if (error == cudaSuccess) return false;
      *why = in_words(what, error) + "; judge by the CPU's (--oracle cpu)";
      return true;
    };
    cudaDeviceProp properties;
    if (failed("CUDA device 0", cudaSetDevice(0)) ||
        failed("CUDA device 0", cudaGetDeviceProperties(&properties, 0)) ||
        failed("a stream", cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking)))
      return false;
    device_ = properties.name;
    blocks_ = kBlocksASm * properties.multiProcessorCount;
    shared_limit_ = std::min(shared_limit_, static_cast<int64_t>(properties.sharedMemPerBlockOptin));
    return true;
  }

  std::string device() const override { return device_; }

  std::optional<Reference> evaluate(const attn_problem& problem, const attn_tensors& host,
                                    const attn_plan& plan, const Calibration& calibration, RowSample sample,
                                    std::string* why) override {
    try {
      if ((problem.features & ATTN_FEATURE_MERGE) != 0)
        return evaluate_sides(problem, host, plan, calibration, sample, why);
      if ((problem.features & ATTN_FEATURE_BACKWARD) != 0)
        return evaluate_backward(problem, host, plan, calibration, sample, why);
      return evaluate_forward(problem, host, plan, calibration, sample, why);
    } catch (NoMemory) {
      *why = "too little free memory on the device";
      return std::nullopt;
    }
  }

 private:
  std::optional<Reference> evaluate_forward(const attn_problem& problem, const attn_tensors& host,
                                            const attn_plan& plan, const Calibration& calibration,
                                            RowSample sample, std::string* why) {
    *why = unknown_features({"the oracle on a GPU", kForward | ATTN_FEATURE_KEY_STEP}, problem.features);
    if (!why->empty()) return std::nullopt;
    if (problem.has_sink && plan.lse_sink) {
      *why = "an LSE that leaves the sink out";
      return std::nullopt;
    }
    const ErrorModel model = make_error_model(problem, plan, calibration);
    if (model.factor_unit > 0) {
      *why = "Q and K that are converted";
      return std::nullopt;
    }
    std::vector<int64_t> rows = sampled_rows(problem, plan.tile_q, sample);
    // Absent rows are left to the host.
    const std::vector<int64_t> absent = take_absent(problem, host, &rows);
    if (rows.empty()) return evaluate_keys(problem, host, model, absent, 0, 0);
    const Results results(rows.size(), static_cast<size_t>(problem.dim_v), model.p_predicted != ATTN_NONE);
    if (results.bytes > kMostResults) {
      *why = "more than 512 MiB of results";
      return std::nullopt;
    }
    Packed packed;
    const auto room = [&](size_t bytes) { return sent_.of(bytes); };
    if (!pack(problem, host, rows, least_work_, room, &packed, why)) return std::nullopt;
    packed.input.model = model;
    run(packed, results);
    return taken(problem, host, model, rows, absent, results);
  }

  // Evaluates a merge; otherwise as evaluate().
  std::optional<Reference> evaluate_sides(const attn_problem& problem, const attn_tensors& host,
                                          const attn_plan& plan, const Calibration& calibration, RowSample sample,
                                          std::string* why) {
    *why = unknown_features({"the oracle of merges on a GPU", kMergeKnows.bits}, problem.features);
    if (!why->empty()) return std::nullopt;
    const ErrorModel model = merge_error_model(problem, plan, calibration);
    const std::vector<int64_t> rows = sampled_rows(problem, plan.tile_q, sample);
    const Results results(rows.size(), static_cast<size_t>(problem.dim_v), false);
    if (results.bytes > kMostResults) {
      *why = "more than 512 MiB of results";
      return std::nullopt;
    }
    attn_problem forward = problem;
    forward.features &= ~(ATTN_FEATURE_MERGE | ATTN_FEATURE_IN_PLACE);
    PackedMerge packed;
    const auto room = [&](size_t bytes) { return sent_.of(bytes); };
    if (!pack_merge(problem, host, rows, least_work_, room, &packed, why)) return std::nullopt;
    packed.input.model = model;
    run_merge(packed, results);
    return taken(forward, {}, model, rows, {}, results);
  }

  // Evaluates a backward pass; otherwise as evaluate().
  std::optional<Reference> evaluate_backward(const attn_problem& problem, const attn_tensors& host,
                                             const attn_plan& plan, const Calibration& calibration, RowSample sample,
                                             std::string* why) {
    *why = unknown_features({"the oracle of gradients on a GPU", kGradientsKnow.bits & ~ATTN_FEATURE_DBIAS},
                            problem.features);
    if (!why->empty()) return std::nullopt;
    if (problem.batch * problem.heads_kv < 1 || problem.batch * problem.heads_kv > kMostGroups) {
      *why = "no KV head of a batch entry, or more than 65,535";
      return std::nullopt;
    }
    std::vector<int64_t> rows(static_cast<size_t>(RowSpace(problem).count()));
    std::iota(rows.begin(), rows.end(), 0);
    take_absent(problem, host, &rows);
    if (static_cast<double>(rows.size()) * static_cast<double>(problem.seq_k) > kMostPairs) {
      *why = "more than 16 million pairs of a query and a key";
      return std::nullopt;
    }
    const double most_work = static_cast<double>(rows.size()) * static_cast<double>(problem.seq_k) *
                             static_cast<double>(problem.dim_qk + problem.dim_v);
    if (most_work < least_work_) {  // before a forward pass is evaluated for it
      *why = "small: the CPU's is done sooner";
      return std::nullopt;
    }
    const attn_plan capped = capped_plan(problem, plan, calibration);
    std::optional<gradients::OwnForward> forward;
    if (recomputes(capped)) forward.emplace(problem, host, plan, calibration, own_forward());
    const std::optional<ExactRows> own = forward ? std::optional(forward->rows()) : std::nullopt;
    PackedGradients packed = {};
    const auto room = [&](size_t bytes) { return sent_.of(bytes); };
    if (!pack_gradients(problem, host, rows, own ? &*own : nullptr, least_work_, room, &packed, why))
      return std::nullopt;
    GradientsInput& in = packed.input;
    const ErrorModel model = gradients::error_model(problem, plan, calibration);
    in.rows.model = model;
    in.terms = gradients::make_terms(problem, capped, model);
    in.tile_q = static_cast<int32_t>(std::max<int64_t>(plan.tile_q, 1));
    in.tile_k = static_cast<int32_t>(std::max<int64_t>(plan.tile_k, 1));
    in.apart = in.sinks && plan.lse_sink != 0;
    const GradientResults results(in);
    if (results.bytes > kMostResults) {
      *why = "more than 512 MiB of results";
      return std::nullopt;
    }
    Reference due = gradients::unset_gradients(problem, host, model);
    if (results.bytes > 0) {
      run_gradients(packed, results);
      take_gradients(problem, host, rows, gradients::wanted(problem, plan, sample), results, due);
    }
    if (forward) forward->add_assumptions(&due);
    return due;
  }

  // The forward pass of a kernel that computes O and LSE by itself, on the device if it handles the problem.
  gradients::OwnForward::Evaluate own_forward() {
    return [this](const attn_problem& problem, const attn_tensors& host, const attn_plan& plan,
                  const Calibration& calibration) {
      std::string why;
      auto due = evaluate_forward(forward_of(problem), host, plan, calibration, {}, &why);
      return due ? *std::move(due) : evaluate_forward_of(problem, host, plan, calibration);
    };
  }

  // The reference of the results that the device has sent back.
  Reference taken(const attn_problem& problem, const attn_tensors& host, const ErrorModel& model,
                  const std::vector<int64_t>& rows, const std::vector<int64_t>& absent, const Results& results) {
    // Evaluating no row gives a result of the right shape. If all rows are evaluated, no shape is needed.
    const bool all = static_cast<int64_t>(rows.size()) == RowSpace(problem).count();
    attn_problem shape = problem;
    if (all) shape.batch = 0;
    Reference reference = evaluate_keys(shape, host, model, absent, 0, 0);
    take(model, rows, all, results, reference);
    return reference;
  }

  RowsOutput output_at(const Results& results) {
    std::byte* to = results_.of(results.bytes);
    RowsOutput out;
    out.o = at<double>(to, results.o);
    out.o_bound = at<double>(to, results.o_bound);
    out.o_exact = results.o_exact < results.lse ? at<double>(to, results.o_exact) : nullptr;
    out.lse = at<double>(to, results.lse);
    out.lse_bound = at<double>(to, results.lse_bound);
    out.o_rule = at<uint8_t>(to, results.rule);
    out.state = at<uint8_t>(to, results.state);
    return out;
  }

  static const std::byte* start_of(const RowsOutput& out) { return reinterpret_cast<const std::byte*>(out.o); }

  attn_env env() const {
    attn_env env = {};
    env.size = sizeof env;
    env.stream = stream_;
    env.shared_memory_limit = shared_limit_;
    return env;
  }

  // Sends inputs, launches kernels, and waits for the results.
  template <class Launch>
  void between_copies(std::byte* inputs, const std::byte* block, size_t bytes, const std::byte* results,
                      size_t result_bytes, const Launch& launch) {
    std::byte* back = received_.of(result_bytes);
    check("copying to the device", cudaMemcpyAsync(inputs, block, bytes, cudaMemcpyHostToDevice, stream_));
    if (launch() != ATTN_OK)
      throw std::runtime_error("the oracle on the GPU: its kernels could not be launched");
    check("copying from the device",
          cudaMemcpyAsync(back, results, result_bytes, cudaMemcpyDeviceToHost, stream_));
    check("its kernels", cudaStreamSynchronize(stream_));
  }

  void run_merge(PackedMerge& packed, const Results& results) {
    MergeInput& in = packed.input;
    std::byte* inputs = inputs_.of(packed.bytes);
    for (int side = 0; side < 2; ++side) relocate(in.o[side], inputs), relocate(in.lse[side], inputs);
    const RowsOutput out = output_at(results);
    const attn_env own = env();
    between_copies(inputs, packed.block, packed.bytes, start_of(out), results.bytes, [&] { return launch_merge(in, out, &own); });
  }

  void run_gradients(PackedGradients& packed, const GradientResults& results) {
    GradientsInput& in = packed.input;
    std::byte* inputs = inputs_.of(packed.bytes);
    relocate_rows(in.rows, packed.has_mask, inputs);
    relocate(in.tasks, inputs), relocate(in.first_row, inputs);
    relocate(in.dout, inputs);
    if (in.dlse != nullptr) relocate(in.dlse, inputs);
    if (in.own_o != nullptr) {
      relocate(in.own_o, inputs), relocate(in.own_o_error, inputs);
      relocate(in.own_lse, inputs), relocate(in.own_lse_error, inputs);
    } else {
      relocate(in.o, inputs), relocate(in.lse, inputs);
    }
    std::byte* const to = results_.of(results.bytes);
    const auto part = [&](const GradientResults::Part& at_part) {
      return GradientOutput{at<double>(to, at_part.value), at<double>(to, at_part.bound),
                            at<uint8_t>(to, at_part.rule)};
    };
    const GradientsOutput out = {part(results.dq), part(results.dk), part(results.dv), part(results.dsink),
                                 at<uint8_t>(to, results.state)};
    GradientsScratch scratch;
    std::byte* const memory = scratch_.of(divide_gradients(in, nullptr, &scratch));
    divide_gradients(in, memory, &scratch);
    const attn_env own = env();
    between_copies(inputs, packed.block, packed.bytes, to, results.bytes,
                   [&] { return launch_gradients(in, out, scratch, &own); });
  }

  // Copies results from the returned block into the reference.
  void take_gradients(const attn_problem& problem, const attn_tensors& host, const std::vector<int64_t>& rows,
                      const gradients::Wanted& wanted, const GradientResults& results, Reference& due) {
    std::byte* const from = received_.of(results.bytes);
    const auto copy = [&](const GradientResults::Part& part, size_t index, Expected& to, int64_t row) {
      const auto columns = static_cast<size_t>(to.columns), first = static_cast<size_t>(row) * columns;
      std::copy_n(at<double>(from, part.value) + index * columns, columns, to.value.data() + first);
      std::copy_n(at<double>(from, part.bound) + index * columns, columns, to.bound.data() + first);
      std::copy_n(at<uint8_t>(from, part.rule) + index * columns, columns, to.rule.data() + first);
    };
    const uint8_t* states = at<uint8_t>(from, results.state);
    for (size_t r = 0; r < rows.size(); ++r) {
      const auto row = static_cast<size_t>(rows[r]);
      if (!wanted.rows[row]) continue;
      const auto state = static_cast<RowState>(states[r] & ~kAnyColumn);
      if (state > RowState::kNaN)
        throw std::runtime_error("the oracle on the GPU: a row that was not evaluated");
      copy(results.dq, r, due[TensorId::kDq], rows[r]);
      due.state[row] = state;
      ++due.sampled;
      due.dead += state == RowState::kDead;
      due.unconstrained += (states[r] & kAnyColumn) != 0;
    }
    const Sequences sequences(problem, host);
    for (size_t slot = 0; slot < wanted.keys.size(); ++slot) {
      const auto key = static_cast<int64_t>(slot);
      const int64_t b = key / (problem.heads_kv * problem.seq_k);
      if (!wanted.keys[slot] || key % problem.seq_k >= sequences.keys.length(b)) continue;
      copy(results.dk, slot, due[TensorId::kDk], key);
      copy(results.dv, slot, due[TensorId::kDv], key);
    }
    for (size_t h = 0; h < results.dsink.elements; ++h)
      copy(results.dsink, h, due[TensorId::kDsink], static_cast<int64_t>(h));
  }

  static void relocate_rows(RowsInput& in, bool has_mask, std::byte* inputs) {
    relocate(in.facts, inputs);
    relocate(in.tasks, inputs);
    relocate(in.lengths, inputs);
    relocate(in.q, inputs);
    relocate(in.k, inputs);
    relocate(in.v, inputs);
    relocate(in.bias, inputs);
    if (has_mask)
      relocate(in.mask, inputs);
    else
      in.mask = nullptr;
  }

  void run(Packed& packed, const Results& results) {
    RowsInput& in = packed.input;
    std::byte* inputs = inputs_.of(packed.bytes);
    relocate_rows(in, packed.has_mask, inputs);
    const RowsOutput out = output_at(results);
    RowsScratch scratch = divide_rows(in, blocks_, shared_limit_);
    const size_t of_blocks = scratch.bytes_a_block * static_cast<size_t>(scratch.blocks);
    const size_t slots = static_cast<size_t>(in.groups) * static_cast<size_t>(in.keys);
    scratch.memory = scratch_.of(of_blocks + slots * (sizeof(double) + 1));
    scratch.key_norm = at<double>(scratch.memory, of_blocks);
    scratch.key_facts = at<uint8_t>(scratch.memory, of_blocks + slots * sizeof(double));
    const attn_env own = env();
    between_copies(inputs, packed.block, packed.bytes, start_of(out), results.bytes,
                   [&] { return launch_rows(in, out, scratch, &own); });
  }

  // Copies results from the returned block into the host oracle's arrays.
  void take(const ErrorNumbers& model, const std::vector<int64_t>& rows, bool all, const Results& results,
            Reference& reference) {
    std::byte* from = received_.of(results.bytes);
    Expected &o = reference[TensorId::kO], &lse = reference[TensorId::kLse];
    const auto columns = static_cast<size_t>(o.columns), count = rows.size();
    // If all rows were evaluated, they are already in order.
    const auto copy = [&](auto& to, size_t offset, size_t width) {
      using Element = std::remove_reference_t<decltype(to[0])>;
      const Element* source = at<Element>(from, offset);
      if (all)
        to.assign(source, source + count * width);
      else
        for (size_t r = 0; r < count; ++r)
          std::copy_n(source + r * width, width, to.begin() + rows[r] * static_cast<int64_t>(width));
    };
    copy(o.value, results.o, columns);
    copy(o.bound, results.o_bound, columns);
    copy(o.rule, results.rule, columns);
    if (results.o_exact < results.lse) copy(o.exact, results.o_exact, columns);
    copy(lse.value, results.lse, 1);
    copy(lse.bound, results.lse_bound, 1);
    if (all) {
      reference.rows = static_cast<int64_t>(count);
      reference.state.resize(count);
      lse.rule.resize(count);
    }
    const uint8_t* states = at<uint8_t>(from, results.state);
    for (size_t r = 0; r < count; ++r) {
      const auto row = static_cast<size_t>(rows[r]);
      const auto state = static_cast<RowState>(states[r] & ~kAnyColumn);
      if (state > RowState::kNaN)
        throw std::runtime_error("the oracle on the GPU: a row that was not evaluated");
      reference.state[row] = state;
      lse.rule[row] = static_cast<uint8_t>(lse_due(model, state));
      ++reference.sampled;
      reference.dead += state == RowState::kDead;
      reference.uninformative += state == RowState::kUninformative;
      reference.unconstrained += state == RowState::kUnconstrained || (states[r] & kAnyColumn) != 0;
    }
  }

  const double least_work_;
  int64_t shared_limit_;  // bytes of a block
  std::string device_;
  cudaStream_t stream_ = nullptr;
  int blocks_ = 0;
  Room<pinned, cudaFreeHost> sent_, received_;
  Room<on_device, cudaFree> inputs_, results_, scratch_;
};

}  // namespace

std::unique_ptr<FastOracle> open_cuda_oracle(std::string* why, double least_work, int64_t most_shared) {
  auto oracle = std::make_unique<CudaOracle>(least_work, most_shared);
  if (!oracle->open(why)) return nullptr;
  return oracle;
}

}  // namespace attnfuzz
