#include "fuzz/batch/device/device.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <chrono>
#include <utility>
#include <vector>

#include "fuzz/batch/device/far_ranges.h"
#include "fuzz/batch/device/laid_pages.h"
#include "fuzz/batch/device/oracle_memory.h"
#include "fuzz/batch/device/readback.h"
#include "fuzz/batch/device/schedule.h"

namespace attnfuzz::batch {
namespace {

constexpr int kStreams = FarRanges::kMostSlots;
constexpr uint64_t kAlign = uint64_t{2} << 20;

using Failure = std::optional<std::string>;

Failure failure(const char* what, cudaError_t error) {
  if (error == cudaSuccess) return std::nullopt;
  return std::string(error == cudaErrorMemoryAllocation ? kNoMemory : "") + what + ": CUDA error " +
         std::to_string(static_cast<int>(error)) + " (" + cudaGetErrorName(error) + "), " +
         cudaGetErrorString(error);
}

uint64_t up(uint64_t bytes, uint64_t to) { return (bytes + to - 1) / to * to; }

// The pages of all calls with keys in pages, in one block of bytes: for each call its table, and behind it the
// number of keys in each of its pages.
struct PageArrays {
  std::vector<std::byte> bytes;
  std::vector<uint64_t> table, held;  // by call: the offset where each begins
  explicit PageArrays(std::span<const Call> calls) {
    const auto put = [&](const auto& numbers) {
      const uint64_t at = bytes.size();
      const std::span from = std::as_bytes(std::span(numbers));
      bytes.insert(bytes.end(), from.begin(), from.end());
      bytes.resize(up(bytes.size(), 8));
      return at;
    };
    for (const Call& call : calls) {
      if (call.paged == 0) {
        table.push_back(0), held.push_back(0);
      } else {
        const LaidPages pages(call);
        table.push_back(put(pages.table));
        held.push_back(put(pages.held));
      }
    }
  }
};

void note(void* user, const attn_report*) { *static_cast<int32_t*>(user) = 1; }

// Keeps a report about one of the batch's own kernels. Such a report never blames the kernel under test.
void keep(void* user, const attn_report* report) { *static_cast<std::string*>(user) = report->message; }
Failure own_failure(const std::string& reported) {
  const bool no_memory = reported.find(cudaGetErrorName(cudaErrorMemoryAllocation)) != reported.npos;
  return std::string(no_memory ? kNoMemory : "") + "one of the batch's own kernels failed: " + reported;
}

struct State {
  cudaStream_t streams[kStreams] = {};
  cudaStream_t others[kStreams] = {};  // for calls on a case's second stream
  cudaEvent_t events[kStreams] = {};
  std::unique_ptr<PageEnds> page_ends;
  FarRanges far_ranges{PageEnds::kStretches};
  int blocks = 0;
  int64_t shared_limit = 0;     // bytes of shared memory of a block
  int count = kStreams;         // number of slots; fewer if the device has no memory for more
  std::byte* memory = nullptr;  // for each slot: its bytes, and the oracle's part
  uint64_t bytes = 0, slot = 0, oracle = 0;
  Counts *counts = nullptr, *received = nullptr;
  Call* calls = nullptr;       // the batch's calls, on the device
  std::byte* pages = nullptr;  // PageArrays of the batch, on the device
  uint64_t pages_bytes = 0;

  ~State() {
    cudaFree(memory);
    cudaFree(counts);
    cudaFree(calls);
    cudaFree(pages);
    cudaFreeHost(received);
    for (const auto& some : {streams, others})
      for (int n = 0; n < kStreams; ++n)
        if (some[n]) cudaStreamDestroy(some[n]);
    for (const cudaEvent_t event : events)
      if (event) cudaEventDestroy(event);
  }

  // `far_too`: also maps memory for spread tensors. plan() reads no element, so that it needs only their addresses.
  Failure room_for(std::span<const Call> calls, bool far_too) {
    if (auto why = slots_for(calls)) return why;
    std::vector<PageEnds::Far> far;
    const std::vector<int> slots = Schedule(calls, count).slot;
    far_ranges.assign(calls, slots);
    for (size_t i = 0; i < calls.size(); ++i) {
      const Call& call = calls[i];
      for (int t = 0; t <= kTensors; ++t) {
        if (call.spread >> t & 1) {
          if (auto why = page_ends->reserve(far_ranges.of(i, t))) return why;
          if (far_too) reach_into(call, i, t, far);
        }
        if (!(call.at_page_end >> t & 1) || (call.spread >> t & 1)) continue;
        if (auto why =
                page_ends->room(stretch(slots[i], t), t < kTensors ? call.tensor[t].end : call.workspace.end))
          return why;
      }
    }
    return far.empty() ? std::nullopt : page_ends->reach(far);
  }

  // Allocates slots as large as the largest call needs. Other processes use the device's memory too. If it has
  // room for fewer slots, fewer calls run at once.
  Failure slots_for(std::span<const Call> calls) {
    uint64_t largest_slot = 0, largest_oracle = 0;
    for (const Call& call : calls) {
      OracleMemory of = {};
      largest_slot = std::max(largest_slot, up(call.bytes, kAlign));
      largest_oracle =
          std::max(largest_oracle, up(place_oracle(call, nullptr, blocks, shared_limit, &of), kAlign));
    }
    if (largest_slot <= slot && largest_oracle <= oracle) return std::nullopt;
    slot = std::max(slot, largest_slot);
    oracle = std::max(oracle, largest_oracle);
    cudaFree(memory);
    memory = nullptr;
    bytes = 0;
    cudaError_t error = cudaErrorMemoryAllocation;
    for (count = kStreams; count > 0; count /= 2) {
      const uint64_t wanted = static_cast<uint64_t>(count) * (slot + oracle) + kAlign;
      error = cudaMalloc(reinterpret_cast<void**>(&memory), wanted);
      if (error == cudaErrorMemoryAllocation && count == kStreams) {
        cudaGetLastError();
        if (auto why = page_ends->give_back()) return why;
        error = cudaMalloc(reinterpret_cast<void**>(&memory), wanted);
      }
      if (error == cudaSuccess) bytes = wanted;
      if (error != cudaErrorMemoryAllocation) break;
      cudaGetLastError();  // clears the error, which is handled or reported here
    }
    if (error == cudaSuccess) return std::nullopt;
    slot = oracle = 0;
    count = kStreams;
    return failure("memory for a batch", error);
  }

  // Copies the pages to the device.
  Failure send(const PageArrays& arrays) {
    const uint64_t bytes = arrays.bytes.size();
    if (bytes == 0) return std::nullopt;
    if (bytes > pages_bytes) {
      cudaFree(pages);
      pages = nullptr, pages_bytes = 0;
      const uint64_t more = std::max<uint64_t>(2 * bytes, 1 << 20);
      if (auto why = failure("memory for pages", cudaMalloc(reinterpret_cast<void**>(&pages), more)))
        return why;
      pages_bytes = more;
    }
    return failure("copying to the device",
                   cudaMemcpyAsync(pages, arrays.bytes.data(), bytes, cudaMemcpyHostToDevice, streams[0]));
  }

  std::byte* first() const {
    return reinterpret_cast<std::byte*>(up(reinterpret_cast<uintptr_t>(memory), kAlign));
  }
  std::byte* address(int n) const { return first() + static_cast<uint64_t>(n) * (slot + oracle); }
  static int stretch(int slot, int tensor) {
    static_assert(kStreams * (kTensors + 1) <= PageEnds::kStretches);
    return slot * (kTensors + 1) + tensor;
  }
  // The offset of a spread tensor's origin in its address range.
  static uint64_t base_in_range(const Call& call, int t) {
    const TensorSlot& place = call.tensor[t];
    return call.at_page_end >> t & 1 ? PageEnds::kFarBytes - address_of(place, place.end) : 0;
  }
  // Adds the parts of the range that need memory: each block, with the page before it and the page behind it.
  void reach_into(const Call& call, size_t index, int t, std::vector<PageEnds::Far>& wanted) const {
    const TensorSlot& place = call.tensor[t];
    const uint64_t base = base_in_range(call, t);
    for (uint32_t n = 0; n < place.blocks; ++n) {
      const uint64_t begin = n == 0 ? place.begin : place.data + n * place.block - kGapEnd,
                     end = n + 1 == place.blocks ? place.end : place.data + (n + 1) * place.block - kGapEnd;
      wanted.push_back(
          {far_ranges.of(index, t), base + address_of(place, begin), base + address_of(place, end - 1) + 1});
    }
  }
  // Returns the address that the tensor's offsets count from. `index`: of the call; `n`: its slot.
  std::byte* base_of(const Call& call, size_t index, int n, int t) const {
    if (call.spread >> t & 1) return page_ends->far(far_ranges.of(index, t)) + base_in_range(call, t);
    if (!(call.at_page_end >> t & 1)) return address(n);
    return page_ends->end(stretch(n, t)) - (t < kTensors ? call.tensor[t].end : call.workspace.end);
  }

  attn_tensors tensors(const Call& call, size_t index, int n) const {
    const auto view = [&](Tensor t) {
      const TensorSlot& place = call.tensor[t];
      attn_tensor tensor = {};
      if (place.end > 0)
        tensor.data =
            base_of(call, index, n, t) + static_cast<int64_t>(place.data) + call.first[t] * place.element_bytes;
      std::copy_n(place.given_stride, 4, tensor.stride);
      return tensor;
    };
    attn_tensors t = {};
    t.size = sizeof t;
    for (int i = 0; i < kTensors; ++i) {
      const TensorSpec& spec = spec_of(kIds[i]);
      // Two tensors may share a member: O and the saved O.
      if (in_problem(spec, call.problem.features)) set_view(t, spec, view(static_cast<Tensor>(i)));
    }
    if (call.problem.latent) t.v = t.k;
    if (call.workspace.end > 0) {
      t.workspace = base_of(call, index, n, kTensors) + call.workspace.data;
      t.workspace_bytes = call.workspace.end_of_data - call.workspace.data;
    }
    return t;
  }

  attn_env env(const Call& call, int n, int32_t* reported) const {
    attn_env env = call.env;
    env.stream = streams[n];
    env.report = note;
    env.user = reported;
    env.probe = nullptr;
    return env;
  }
};

class CudaDevice final : public Device {
 public:
  Failure open(std::unique_ptr<PageEnds> page_ends);
  Failure plan(const attn_kernel& kernel, void (*limit)(void*, attn_env&), void* of,
               std::span<const Call> calls, std::span<Result> results) override;
  Failure run(const attn_kernel& kernel, void (*limit)(void*, attn_env&), void* of, std::span<const Call> calls,
              std::span<Result> results, std::span<std::byte> readback) override;

 private:
  Failure send(std::span<const Call> calls, const PageArrays& pages);
  // Runs the kernel under test on the stream that the call wants. If that is the second stream, the kernel
  // waits by an event for the earlier work on the case's own stream, and later work there waits for the kernel.
  attn_status call_kernel(const attn_kernel& kernel, const Call& call, int slot, uint32_t number,
                          const attn_tensors& tensors, attn_env env);
  // Launches one call and the kernels that judge it.
  Failure launch(const attn_kernel& kernel, const Call& call, size_t index, int slot, const PageArrays& pages,
                 attn_env env, std::span<std::byte> readback, Result& result);
  State state_;
};

Failure CudaDevice::open(std::unique_ptr<PageEnds> page_ends) {
  state_.page_ends = std::move(page_ends);
  cudaDeviceProp properties;
  if (auto why = failure("the device", cudaGetDeviceProperties(&properties, 0))) return why;
  state_.blocks = cuda::kBlocksASm * properties.multiProcessorCount;
  state_.shared_limit = static_cast<int64_t>(properties.sharedMemPerBlockOptin);
  for (const auto& some : {state_.streams, state_.others})
    for (int n = 0; n < kStreams; ++n)
      if (auto why = failure("a stream", cudaStreamCreateWithFlags(&some[n], cudaStreamNonBlocking)))
        return why;
  for (cudaEvent_t& event : state_.events)
    if (auto why = failure("an event", cudaEventCreateWithFlags(&event, cudaEventDisableTiming))) return why;
  if (auto why = failure("memory for counts",
                         cudaMalloc(reinterpret_cast<void**>(&state_.counts), kMostCalls * sizeof(Counts))))
    return why;
  if (auto why = failure("memory for calls",
                         cudaMalloc(reinterpret_cast<void**>(&state_.calls), kMostCalls * sizeof(Call))))
    return why;
  return failure("pinned memory",
                 cudaMallocHost(reinterpret_cast<void**>(&state_.received), kMostCalls * sizeof(Counts)));
}

Failure CudaDevice::plan(const attn_kernel& kernel, void (*limit)(void*, attn_env&), void* of,
                         std::span<const Call> calls, std::span<Result> results) {
  if (auto why = state_.room_for(calls, false)) return why;
  const std::vector<int> slots = Schedule(calls, state_.count).slot;
  for (size_t i = 0; i < calls.size(); ++i) {
    Result& result = results[i] = {};
    attn_env env = state_.env(calls[i], slots[i], &result.reported);
    limit(of, env);
    const attn_tensors tensors = state_.tensors(calls[i], i, slots[i]);
    // A plan() that writes beyond attn_plan does no harm here. The worker reports it when a case runs alone.
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

// Copies the calls and their pages to the device.
Failure CudaDevice::send(std::span<const Call> calls, const PageArrays& pages) {
  const cudaStream_t stream = state_.streams[0];
  if (auto why = state_.send(pages)) return why;
  if (auto why = failure(
          "copying to the device",
          cudaMemcpyAsync(state_.calls, calls.data(), calls.size_bytes(), cudaMemcpyHostToDevice, stream)))
    return why;
  return failure("copying to the device", cudaStreamSynchronize(stream));
}

attn_status CudaDevice::call_kernel(const attn_kernel& kernel, const Call& call, int slot, uint32_t number,
                                    const attn_tensors& tensors, attn_env env) {
  const bool other = call.repeat[number].stream != 0;
  const auto after = [&](cudaStream_t first, cudaStream_t then) {
    return cudaEventRecord(state_.events[slot], first) == cudaSuccess &&
           cudaStreamWaitEvent(then, state_.events[slot], 0) == cudaSuccess;
  };
  if (other) env.stream = state_.others[slot];
  if (other && !after(state_.streams[slot], state_.others[slot])) return ATTN_FAULT;
  const attn_status status = static_cast<attn_status>(kernel.run(&call.problem, &tensors, &call.plan, &env));
  if (other && !after(state_.others[slot], state_.streams[slot])) return ATTN_FAULT;
  return status;
}

Failure CudaDevice::launch(const attn_kernel& kernel, const Call& call, size_t index, int slot,
                           const PageArrays& pages, attn_env env, std::span<std::byte> readback,
                           Result& result) {
  attn_env own = env;  // for the kernels of the batch itself
  std::string reported;
  own.shared_memory_limit = state_.shared_limit;
  own.report = keep;
  own.user = &reported;
  const auto failed = [&](attn_status status) { return status != ATTN_OK || !reported.empty(); };
  OracleMemory of = {};
  GradientWork& gradients = of.gradients;
  Work& work = gradients.work;
  work.call = state_.calls + index;
  work.counts = state_.counts + index;
  work.table = reinterpret_cast<const int64_t*>(state_.pages + pages.table[index]);
  work.held = reinterpret_cast<const int32_t*>(state_.pages + pages.held[index]);
  for (int t = 0; t <= kTensors; ++t) work.base[t] = state_.base_of(call, index, slot, t);
  place_oracle(call, state_.address(slot) + state_.slot, state_.blocks, state_.shared_limit, &of);
  const attn_tensors tensors = state_.tensors(call, index, slot);
  const bool backward = is_backward(call);
  const auto forward = [&] { return launch_rows(work.input, work.output, of.rows, &own); };
  const auto evaluated = [&] {
    return is_merge(call) ? launch_merge(work.merge, work.output, &own)
           : backward     ? launch_gradients(gradients.input, gradients.due, of.pairs, &own)
                          : forward();
  };
  if (has_lists(call) && failed(lay_lists(call, work, &own))) return own_failure(reported);
  if (failed(lay_out(call, work, &own))) return own_failure(reported);
  if (backward && (failed(forward()) || failed(lay_gradients(call, gradients, &own))))
    return own_failure(reported);
  for (uint32_t n = 0; n < call.repeats; ++n) {
    work.number = static_cast<int32_t>(n);
    if (n > 0 && failed(lay_again(call, work, &own))) return own_failure(reported);
    if (n > 0 && backward && failed(lay_gradients_again(call, gradients, &own))) return own_failure(reported);
    result.status = call_kernel(kernel, call, slot, n, tensors, env);
    if (result.status != ATTN_OK) return std::nullopt;  // nobody reads the results of a refused call
    if ((n == 0 && failed(evaluated())) || failed(judge(call, work, &own))) return own_failure(reported);
    if (backward && failed(judge_gradients(call, gradients, &own))) return own_failure(reported);
  }
  if (call.readback_at == kNoReadback) return std::nullopt;
  const Readback of_call(call);
  if (call.readback_at > readback.size() || readback.size() - call.readback_at < of_call.sent())
    return "a call's results have no room";
  return failure("copying from the device",
                 cudaMemcpyAsync(readback.data() + call.readback_at, of.results + of_call.from, of_call.sent(),
                                 cudaMemcpyDeviceToHost, state_.streams[slot]));
}

Failure CudaDevice::run(const attn_kernel& kernel, void (*limit)(void*, attn_env&), void* of,
                        std::span<const Call> calls, std::span<Result> results, std::span<std::byte> readback) {
  using Clock = std::chrono::steady_clock;
  const auto since = [](Clock::time_point from) {
    return std::chrono::duration<double>(Clock::now() - from).count();
  };
  const Clock::time_point begin = Clock::now();
  if (auto why = state_.room_for(calls, true)) return why;
  const double map_s = since(begin);
  const PageArrays pages(calls);
  if (auto why = send(calls, pages)) return why;
  const double send_s = since(begin) - map_s;
  const Schedule schedule(calls, state_.count);
  const std::vector<int>& slots = schedule.slot;
  for (const size_t i : schedule.order) {
    Result& result = results[i] = {};
    const Clock::time_point start = Clock::now();
    attn_env env = state_.env(calls[i], slots[i], &result.reported);
    limit(of, env);
    if (auto why = launch(kernel, calls[i], i, slots[i], pages, env, readback, result)) {
      // The fault of an earlier kernel shows at any later launch. The calls under way end before their memory
      // is used again.
      auto fault = failure("a kernel of the batch", cudaDeviceSynchronize());
      return fault ? fault : why;
    }
    result.launch_s = since(start);
  }
  const Clock::time_point launched = Clock::now();
  if (auto why = failure("a kernel of the batch", cudaDeviceSynchronize())) return why;
  if (!results.empty())
    results[0].map_s = map_s, results[0].send_s = send_s, results[0].flight_s = since(launched);
  cudaGetLastError();  // clears refused launches, which a status has already reported
  if (auto why = failure(
          "copying from the device",
          cudaMemcpy(state_.received, state_.counts, calls.size() * sizeof(Counts), cudaMemcpyDeviceToHost)))
    return why;
  for (size_t i = 0; i < calls.size(); ++i) results[i].counts = state_.received[i];
  return std::nullopt;
}

}  // namespace

std::unique_ptr<Device> open_device(std::unique_ptr<PageEnds> page_ends, std::string* why) {
  auto device = std::make_unique<CudaDevice>();
  if (auto failed = device->open(std::move(page_ends))) {
    *why = *failed;
    return nullptr;
  }
  return device;
}

}  // namespace attnfuzz::batch
