// Kernels that live in a process which is no program of ours, but hosts the worker:
// a Python interpreter. It loads this as a library, says what kernels it has, and is
// called back for plan and run; wire, arena, device, crash record and supervisor are the
// worker's own. Plain C, so that whatever can call C can host.
//
//   fork();                                        // the host's parent side becomes the supervisor
//   attnfuzz_supervise(worker);                    // never returns
//   ... in the child:
//   return attnfuzz_work(load, "sdpa.py", "efficient", "/home/me", supervisor);   // until the worker is done
//
// The descriptors of host/wire.h must be open in both.
#pragma once

#include <stdint.h>

#include "kernels/attention.h"

#ifdef __cplusplus
extern "C" {
#endif

// Called with problems that make sense (plug_in.h has looked at them), all structs of
// this version. Plan may fill in more of *plan than its defaults. Run may refuse what
// only its tensors, or the library behind it, could tell: ATTN_UNSUPPORTED, and why in
// text[size], which counts as if plan() had said so; or fail, ATTN_FAULT, and how.
typedef struct attnfuzz_hosted {
  uint32_t size;
  int32_t backend;  // attn_backend
  const char* name;
  const char* description;
  const char *domain, *source_hash, *host, *source;  // for build identity: declared limits, in words for a
                                                     // person; of its file; who runs it; the file
  int32_t (*plan)(const attn_problem* problem, const attn_tensors* tensors, const attn_env* env,
                  attn_plan* plan, char* text, uint64_t size);
  int32_t (*run)(const attn_problem* problem, const attn_tensors* tensors, const attn_plan* plan,
                 const attn_env* env, char* text, uint64_t size);
  uint32_t dtypes;  // of Q, K, V and O: bits 1 << attn_dtype. Cases are drawn in fp32 where that is among them
  const attn_domain* takes;  // of its limits what that can say; NULL: nothing but dtypes
  int32_t finite;    // boolean: it promises nothing where Q, K or V hold NaN or an infinity: refused for it
  const char* note;  // what a check says of it before it begins; NULL: nothing
  uint64_t features;  // bits of attn_problem.features that it takes besides ATTN_FEATURE_F32, which dtypes says
} attnfuzz_hosted;

// This process becomes the supervisor (supervisor.h) of its child `worker`, ends it when whoever
// asked for it has gone, and does not return.
ATTN_EXPORT void attnfuzz_supervise(int32_t worker);

typedef struct attnfuzz_loaded {
  const attnfuzz_hosted* kernels;
  uint32_t count;
  const char* refusal;  // why there are none, if not NULL; the one who asked is told
} attnfuzz_loaded;

// Serves until done and returns an exit status. `load` is called once, when the process is
// confined as far as it has to be (confine.h): what nobody vouches for is imported there. `readable`
// are the files and folders that a confined one may read, with ':' between. `supervisor` is the
// parent's process id.
ATTN_EXPORT int32_t attnfuzz_work(void (*load)(attnfuzz_loaded* to), const char* of, const char* selector,
                                  const char* readable, int32_t supervisor);

// Takes from this process, and from all that are forked from it, the rights to write files (but the devices of
// a GPU's driver) and to open TCP connections, as far as the system can. NULL, or why it cannot take what it
// has.
ATTN_EXPORT const char* attnfuzz_confine_zygote(void);

// A kernel that compiles as it runs says when that begins, and when it ends: the watchdog has another
// allowance for it (watchdog.h).
ATTN_EXPORT void attnfuzz_compiling(int32_t begins);

// attn_backend of this library.
ATTN_EXPORT int32_t attnfuzz_backend(void);

#ifdef __cplusplus
}
#endif
