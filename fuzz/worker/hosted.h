// Lets another program host the worker: a Python interpreter. The host loads this as a library, says which
// kernels it has, and is called back for plan and run. Wire, arena, device, crash record and supervisor are
// the same as in every worker. The interface is plain C, so any program that can call C can be a host.
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

// A kernel of the host. plan() and run() get only valid problems (plug_in.h has checked them), and all structs
// are of this version. plan() gets a plan of defaults and may change it. run() may refuse with ATTN_UNSUPPORTED
// and a reason in text[size], if only the tensors or the library behind it show that; this counts as a refusal
// of plan(). It may fail with ATTN_FAULT and a text.
typedef struct attnfuzz_hosted {
  uint32_t size;
  int32_t backend;  // attn_backend
  const char* name;
  const char* description;
  const char *domain, *source_hash, *host, *source;  // for build identity: declared
                                                     // limits in words; hash of its file; its
                                                     // interpreter; its file
  int32_t (*plan)(const attn_problem* problem, const attn_tensors* tensors, const attn_env* env,
                  attn_plan* plan, char* text, uint64_t size);
  int32_t (*run)(const attn_problem* problem, const attn_tensors* tensors, const attn_plan* plan,
                 const attn_env* env, char* text, uint64_t size);
  uint32_t dtypes;           // of Q, K, V and O: bits 1 << attn_dtype; fp32 is drawn if it is among them
  const attn_domain* takes;  // its limits, as far as attn_domain can express them; NULL: only dtypes
  int32_t finite;            // boolean: NaN and infinities in Q, K and V are refused for it
  const char* note;          // printed before a check begins; NULL: nothing
  uint64_t features;  // bits of attn_problem.features that it takes; ATTN_FEATURE_F32 follows from dtypes
  int32_t cache;      // attnfuzz::CacheKind: 0 for a function, otherwise it is a class
  // Takes a message (properties/sequences/run/tell.h): to which sequences and step the next call belongs, or how a step
  // changes the sequences of a class. Answers as run() does. NULL for a function.
  int32_t (*tell)(const char* json, char* text, uint64_t size);
} attnfuzz_hosted;

// This process becomes the supervisor (supervisor.h) of its child `worker`. It ends the worker when the process
// that requested the worker has gone, and does not return.
ATTN_EXPORT void attnfuzz_supervise(int32_t worker);

typedef struct attnfuzz_loaded {
  const attnfuzz_hosted* kernels;
  uint32_t count;
  const char* refusal;  // if not NULL, the reason why there are none; the parent reports it
} attnfuzz_loaded;

// Serves until done and returns an exit status. `load` is called once, after the process is confined as far as
// it has to be (confine.h), because it imports untrusted code. `readable` lists the files and folders that a
// confined process may read, separated by ':'. `supervisor` is the parent's process id.
ATTN_EXPORT int32_t attnfuzz_work(void (*load)(attnfuzz_loaded* to), const char* of, const char* selector,
                                  const char* readable, int32_t supervisor);

// Takes from this process, and from all that are forked from it, the rights to write files (except the devices
// of a GPU's driver) and to open TCP connections, as far as the system can. Returns NULL, or the reason why it
// failed.
ATTN_EXPORT const char* attnfuzz_confine_zygote(void);

// Called by a kernel that compiles as it runs, when compiling begins and when it ends. The watchdog allows
// extra time for it (watchdog.h).
ATTN_EXPORT void attnfuzz_compiling(int32_t begins);

// attn_backend of this library.
ATTN_EXPORT int32_t attnfuzz_backend(void);

#ifdef __cplusplus
}
#endif
