// A minimal flash attention forward: tiles of K and V in shared memory, one query row a thread.
#include <cuda.h>
#include <cuda_runtime.h>

__global__
void forward_kernel(const float* Q, const float* K, const float* V, const int N, const int d,
                    const int Tc, const int Tr, const int Bc, const int Br, const float softmax_scale,
                    float* l, float* m, float* O) {
    int tx = threadIdx.x;
    int bx = blockIdx.x; int by = blockIdx.y;  // batch and head index

    // Offset into Q,K,V,O,l,m - different for each batch and head
    int qkv_offset = (bx * gridDim.y * N * d) + (by * N * d);
    int lm_offset = (bx * gridDim.y * N) + (by * N);

    // Define SRAM for Q,K,V,S
    extern __shared__ float sram[];
    int tile_size = Bc * d;
    float* Qi = sram;
    float* Kj = &sram[tile_size];
    float* Vj = &sram[tile_size * 2];
    float* S = &sram[tile_size * 3];

    for (int j = 0; j < Tc; j++) {
        int keys = min(Bc, N - j * Bc);
        if (tx < keys) {
            for (int x = 0; x < d; x++) {
                Kj[(tx * d) + x] = K[qkv_offset + (tile_size * j) + (tx * d) + x];
                Vj[(tx * d) + x] = V[qkv_offset + (tile_size * j) + (tx * d) + x];
            }
        }
        __syncthreads();  // such that the inner loop can use the correct Kj, Vj

        for (int i = 0; i < Tr; i++) {
            int row = i * Br + tx;
            if (row < N) {
                for (int x = 0; x < d; x++) {
                    Qi[(tx * d) + x] = Q[qkv_offset + (tile_size * i) + (tx * d) + x];
                }
                float row_m_prev = m[lm_offset + row];
                float row_l_prev = l[lm_offset + row];

                // S = QK^T, row_m = rowmax(S)
                float row_m = -INFINITY;
                for (int y = 0; y < keys; y++) {
                    float sum = 0;
                    for (int x = 0; x < d; x++) sum += Qi[(tx * d) + x] * Kj[(y * d) + x];
                    sum *= softmax_scale;
                    S[(Bc * tx) + y] = sum;
                    if (sum > row_m) row_m = sum;
                }

                // P = exp(S - row_m), row_l = rowsum(P)
                float row_l = 0;
                for (int y = 0; y < keys; y++) {
                    S[(Bc * tx) + y] = __expf(S[(Bc * tx) + y] - row_m);
                    row_l += S[(Bc * tx) + y];
                }

                // Compute new m and l
                float row_m_new = max(row_m_prev, row_m);
                float row_l_new = (__expf(row_m_prev - row_m_new) * row_l_prev) + (__expf(row_m - row_m_new) * row_l);

                // Write O, l, m to HBM
                for (int x = 0; x < d; x++) {
                    float pv = 0;  // Pij * Vj
                    for (int y = 0; y < keys; y++) pv += S[(Bc * tx) + y] * Vj[(y * d) + x];
                    O[qkv_offset + (tile_size * i) + (tx * d) + x] = (1 / row_l_new) *
                        ((row_l_prev * __expf(row_m_prev - row_m_new) * O[qkv_offset + (tile_size * i) + (tx * d) + x])
                        + (__expf(row_m - row_m_new) * pv));
                }
                m[lm_offset + row] = row_m_new;
                l[lm_offset + row] = row_l_new;
            }
        }
        __syncthreads();  // otherwise, thread can use the wrong Kj, Vj in inner loop
    }
}

__global__ void fill(float* x, float value, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] = value;
}

void flash_forward(const float* Q, const float* K, const float* V, float* O, int B, int nh, int N, int d, float scale) {
    const int Bc = 32; const int Br = 32;
    const int Tc = (N + Bc - 1) / Bc; const int Tr = (N + Br - 1) / Br;
    float *l, *m;
    cudaMalloc((void**)&l, B * nh * N * sizeof(float));
    cudaMalloc((void**)&m, B * nh * N * sizeof(float));
    cudaMemset(l, 0, B * nh * N * sizeof(float));
    cudaMemset(O, 0, (size_t)B * nh * N * d * sizeof(float));
    fill<<<(B * nh * N + 127) / 128, 128>>>(m, -INFINITY, B * nh * N);

    // Calculate SRAM size needed per block
    const int sram_size = (3 * Bc * d * sizeof(float)) + (Bc * Br * sizeof(float));
    cudaFuncSetAttribute(forward_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, sram_size);
    dim3 grid_dim(B, nh);  // batch_size x num_heads
    dim3 block_dim(Bc);  // Bc threads per block

    forward_kernel<<<grid_dim, block_dim, sram_size>>>(
        Q, K, V, N, d, Tc, Tr, Bc, Br, scale,
        l, m, O
    );
    cudaFree(l);
    cudaFree(m);
}
