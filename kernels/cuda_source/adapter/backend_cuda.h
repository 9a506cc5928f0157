// backend.h on a GPU. Everything runs on the call's stream. Only a kernel that does not ask for this stream
// launches on others, which do not wait for it. So the host waits for the call's stream before the run, and for
// the device after it.
#pragma once

namespace attn::adapter {

static __global__ void move_all(Move move, int64_t count) {
  for (int64_t n = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; n < count;
       n += int64_t{gridDim.x} * blockDim.x)
    move(n);
}
static __global__ void fill_bytes(unsigned char* at, unsigned char value, int64_t count) {
  for (int64_t n = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; n < count;
       n += int64_t{gridDim.x} * blockDim.x)
    at[n] = value;
}
static __global__ void fill_borders(int* borders, const void* given, int32_t index_dtype, int64_t batch, int64_t rows) {
  for (int64_t n = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; n <= batch; n += int64_t{gridDim.x} * blockDim.x)
    fill_border(n, borders, given, index_dtype, rows);
}
static __global__ void fill_pages(PageTable table, int64_t count) {
  for (int64_t n = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; n < count;
       n += int64_t{gridDim.x} * blockDim.x)
    table(n);
}

inline void fill(const Call& call, char* at, unsigned char value, uint64_t bytes) {
  if (bytes == 0) return;
  launch(fill_bytes, dim3(256), dim3(256), 0, &call.env, reinterpret_cast<unsigned char*>(at), value,
         static_cast<int64_t>(bytes));
}

inline void make_pages(const Call& call, const PageTable& table) {
  launch(fill_pages, dim3(64), dim3(256), 0, &call.env, table, table.count());
}

inline void make_borders(const Call& call, int* borders, const void* given, int64_t rows) {
  launch(fill_borders, dim3(4), dim3(256), 0, &call.env, borders, given, call.problem.index_dtype, call.problem.batch,
         rows);
}

inline void move_each(const Call& call, const Move& move, int64_t count) {
  if (count > 0) launch(move_all, dim3(256), dim3(256), 0, &call.env, move, count);
}

template <class F>
attn_status run_between_redzones(const Call& call, const Takes&, const Layout&, char*, F run) {
  cudaError_t error = cudaStreamSynchronize(static_cast<cudaStream_t>(call.env.stream));
  const bool on_stream = run();
  if (error == cudaSuccess) error = cudaGetLastError();
  if (error == cudaSuccess && !on_stream) error = cudaDeviceSynchronize();
  if (error == cudaSuccess) return ATTN_OK;
  report_launch(&call.env, ATTN_REPORT_DEVICE, cudaGetErrorString(error));
  return ATTN_LAUNCH_FAILED;
}

}  // namespace attn::adapter
