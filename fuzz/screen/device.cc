#include "fuzz/screen/device.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "fuzz/screen/kernels.h"

namespace attnfuzz::screen {
namespace {

constexpr int kStreams = 8;
constexpr int kBlocksASm = 6;  // of the oracle's rows
constexpr uint64_t kAlign = uint64_t{2} << 20;

using Failure = std::optional<std::string>;

Failure failure(const char* what, cudaError_t error) {
  if (error == cudaSuccess) return std::nullopt;
  return std::string(what) + ": CUDA error " + std::to_string(static_cast<int>(error)) + " (" +
         cudaGetErrorName(error) + "), " + cudaGetErrorString(error);
}

uint64_t up(uint64_t bytes, uint64_t to) { return (bytes + to - 1) / to * to; }

int64_t padded(int64_t elements) { return (elements + cuda::kPad - 1) / cuda::kPad * cuda::kPad; }

// Parts of one block of bytes.
struct Parts {
  std::byte* base;
  uint64_t bytes = 0;
  template <class T>
  void take(T*& to, uint64_t count) {
    to = reinterpret_cast<T*>(base + bytes);
    bytes += up(count * sizeof(T), 256);
  }
};

// What the oracle is told and says, of a call. Returns how many bytes from `base` on that takes.
uint64_t oracle_of(const Call& call, std::byte* base, int blocks, Work* work, cuda::RowsScratch* scratch) {
  const attn_problem& p = call.problem;
  cuda::RowsInput& in = work->input;
  in.model = call.model;
  in.dtype = p.dtype;
  in.bias_dtype = ATTN_NONE;
  in.rows = static_cast<int32_t>(p.batch * p.heads_q * p.seq_q);
  in.groups = static_cast<int32_t>(p.batch * p.heads_kv);
  in.keys = in.most_keys = static_cast<int32_t>(p.seq_k);
  in.dim_qk = static_cast<int32_t>(p.dim_qk);
  in.dim_v = static_cast<int32_t>(p.dim_v);
  in.stride_qk = static_cast<int32_t>(padded(p.dim_qk));
  in.stride_v = static_cast<int32_t>(padded(p.dim_v));
  in.bias = nullptr;
  in.mask = nullptr;
  const auto rows = static_cast<uint64_t>(in.rows), groups = static_cast<uint64_t>(in.groups),
             slots = groups * static_cast<uint64_t>(in.keys), qk = static_cast<uint64_t>(in.stride_qk),
             v = static_cast<uint64_t>(in.stride_v), numbers = rows * static_cast<uint64_t>(p.dim_v);
  Parts parts{base};
  parts.take(in.facts, groups);
  parts.take(in.tasks, rows);
  parts.take(in.lengths, groups);
  parts.take(in.q, rows * qk);
  parts.take(in.k, slots * qk);
  parts.take(in.v, slots * v);
  cuda::RowsOutput& out = work->output;
  parts.take(out.o, numbers);
  parts.take(out.o_bound, numbers);
  parts.take(out.o_exact, numbers);
  if (call.model.p_predicted == ATTN_NONE) out.o_exact = nullptr;
  parts.take(out.lse, rows);
  parts.take(out.lse_bound, rows);
  parts.take(out.o_rule, numbers);
  parts.take(out.state, rows);
  scratch->bytes_a_block = cuda::scratch_bytes(in);
  scratch->blocks = static_cast<int>(std::min<int64_t>(in.rows, blocks));
  parts.take(scratch->key_norm, slots);
  parts.take(scratch->key_purity, slots);
  parts.take(scratch->memory, scratch->bytes_a_block * static_cast<uint64_t>(scratch->blocks));
  return parts.bytes;
}

void note(void* user, const attn_report*) { *static_cast<int32_t*>(user) = 1; }

struct State {
  cudaStream_t streams[kStreams] = {};
  int blocks = 0;
  std::byte* memory = nullptr;  // a slot and the oracle's part for each stream
  uint64_t bytes = 0, slot = 0, oracle = 0;
  Counts *counts = nullptr, *received = nullptr;

  ~State() {
    cudaFree(memory);
    cudaFree(counts);
    cudaFreeHost(received);
    for (const cudaStream_t s : streams)
      if (s) cudaStreamDestroy(s);
  }

  Failure room_for(std::span<const Call> calls) {
    uint64_t largest_slot = 0, largest_oracle = 0;
    for (const Call& call : calls) {
      Work work;
      cuda::RowsScratch scratch;
      largest_slot = std::max(largest_slot, up(call.bytes, kAlign));
      largest_oracle = std::max(largest_oracle, up(oracle_of(call, nullptr, blocks, &work, &scratch), kAlign));
    }
    if (largest_slot <= slot && largest_oracle <= oracle) return std::nullopt;
    slot = std::max(slot, largest_slot);
    oracle = std::max(oracle, largest_oracle);
    const uint64_t wanted = kStreams * (slot + oracle) + kAlign;
    cudaFree(memory);
    memory = nullptr;
    bytes = 0;
    if (auto why = failure("memory for a batch", cudaMalloc(reinterpret_cast<void**>(&memory), wanted))) {
      slot = oracle = 0;
      return why;
    }
    bytes = wanted;
    return std::nullopt;
  }

  std::byte* first() const {
    return reinterpret_cast<std::byte*>(up(reinterpret_cast<uintptr_t>(memory), kAlign));
  }
  std::byte* slot_of(size_t call) const { return first() + call % kStreams * (slot + oracle); }

  attn_tensors tensors(const Call& call, size_t index) const {
    std::byte* base = slot_of(index);
    const auto view = [&](Tensor t) {
      const Place& place = call.tensor[t];
      attn_tensor tensor = {place.end > 0 ? base + place.data : nullptr, {}};
      std::copy_n(place.told, 4, tensor.stride);
      return tensor;
    };
    attn_tensors t = {};
    t.size = sizeof t;
    t.q = view(kQuery);
    t.k = view(kKey);
    t.v = view(kValue);
    t.o = view(kOutput);
    t.lse = view(kLse);
    if (call.workspace.end > 0) {
      t.workspace = base + call.workspace.data;
      t.workspace_bytes = call.workspace.end_of_data - call.workspace.data;
    }
    return t;
  }

  attn_env env(const Call& call, size_t index, int32_t* reported) const {
    attn_env env = call.env;
    env.stream = streams[index % kStreams];
    env.report = note;
    env.user = reported;
    env.probe = nullptr;
    return env;
  }
};

class CudaDevice final : public Device {
 public:
  Failure open();
  Failure plan(const attn_kernel& kernel, void (*limit)(void*, attn_env&), void* of,
               std::span<const Call> calls, std::span<Result> results) override;
  Failure run(const attn_kernel& kernel, void (*limit)(void*, attn_env&), void* of, std::span<const Call> calls,
              std::span<Result> results) override;

 private:
  State state_;
};

Failure CudaDevice::open() {
  cudaDeviceProp properties;
  if (auto why = failure("the device", cudaGetDeviceProperties(&properties, 0))) return why;
  state_.blocks = kBlocksASm * properties.multiProcessorCount;
  for (cudaStream_t& s : state_.streams)
    if (auto why = failure("a stream", cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking))) return why;
  if (auto why = failure("memory for counts",
                         cudaMalloc(reinterpret_cast<void**>(&state_.counts), kMostCalls * sizeof(Counts))))
    return why;
  return failure("pinned memory",
                 cudaMallocHost(reinterpret_cast<void**>(&state_.received), kMostCalls * sizeof(Counts)));
}

Failure CudaDevice::plan(const attn_kernel& kernel, void (*limit)(void*, attn_env&), void* of,
                         std::span<const Call> calls, std::span<Result> results) {
  if (auto why = state_.room_for(calls)) return why;
  for (size_t i = 0; i < calls.size(); ++i) {
    Result& result = results[i] = {};
    attn_env env = state_.env(calls[i], i, &result.reported);
    limit(of, env);
    const attn_tensors tensors = state_.tensors(calls[i], i);
    // What a plan that is longer than the caller's writes is for the ordinary way to find.
    struct {
      attn_plan plan = {};
      std::byte beyond[1024] = {};
    } room;
    room.plan.size = sizeof room.plan;
    char reason[512] = "";
    result.status = kernel.plan(&calls[i].problem, &tensors, &env, &room.plan, reason, sizeof reason);
    result.plan = room.plan;
  }
  return failure("after plan()", cudaGetLastError());
}

Failure CudaDevice::run(const attn_kernel& kernel, void (*limit)(void*, attn_env&), void* of,
                        std::span<const Call> calls, std::span<Result> results) {
  if (auto why = state_.room_for(calls)) return why;
  for (size_t i = 0; i < calls.size(); ++i) {
    const Call& call = calls[i];
    Result& result = results[i] = {};
    const auto start = std::chrono::steady_clock::now();
    attn_env env = state_.env(call, i, &result.reported);
    limit(of, env);
    attn_env own = env;  // of a screen's kernels
    own.shared_memory_limit = 48 * 1024;
    Work work;
    cuda::RowsScratch scratch;
    work.problem = call.problem;
    std::ranges::copy(call.tensor, work.tensor);
    work.workspace = call.workspace;
    std::ranges::copy(call.fill, work.fill);
    work.overflow = call.overflow;
    work.complete = call.complete;
    work.slot = state_.slot_of(i);
    work.counts = state_.counts + i;
    oracle_of(call, work.slot + state_.slot, state_.blocks, &work, &scratch);
    const attn_tensors tensors = state_.tensors(call, i);
    result.status = lay_out(work, &own);
    if (result.status == ATTN_OK) result.status = kernel.run(&call.problem, &tensors, &call.plan, &env);
    if (result.status == ATTN_OK) result.status = launch_rows(work.input, work.output, scratch, &own);
    if (result.status == ATTN_OK) result.status = judge(work, &own);
    result.launch_s = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }
  if (auto why = failure("a kernel of the batch", cudaDeviceSynchronize())) return why;
  cudaGetLastError();  // refused launches are told in a status
  if (auto why = failure(
          "copying from the device",
          cudaMemcpy(state_.received, state_.counts, calls.size() * sizeof(Counts), cudaMemcpyDeviceToHost)))
    return why;
  for (size_t i = 0; i < calls.size(); ++i) results[i].counts = state_.received[i];
  return std::nullopt;
}

}  // namespace

std::unique_ptr<Device> open_device(std::string* why) {
  auto device = std::make_unique<CudaDevice>();
  if (auto failed = device->open()) {
    *why = *failed;
    return nullptr;
  }
  return device;
}

}  // namespace attnfuzz::screen
