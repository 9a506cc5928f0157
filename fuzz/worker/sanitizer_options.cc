// The options of the sanitizers' runtimes in a worker: the first finding ends it, with few words on
// stderr, where fuzz/host/sanitizer_report.h reads them. ASAN_OPTIONS and its like override them,
// as usual. The parent looks up symbols, because it can do so once for each place instead of once
// for each finding.
#define ATTN_OPTIONS extern "C" __attribute__((visibility("default"), used)) const char*

ATTN_OPTIONS __asan_default_options() {
  return "symbolize=0:print_legend=0:print_full_thread_history=0:detect_leaks=0:"
         "detect_stack_use_after_return=0:allocator_may_return_null=1:exitcode=86";
}
ATTN_OPTIONS __ubsan_default_options() { return "symbolize=0:print_stacktrace=1:halt_on_error=1:exitcode=86"; }
ATTN_OPTIONS __msan_default_options() {
  return "symbolize=0:poison_in_malloc=0:poison_in_free=0:poison_in_dtor=0:allocator_may_return_null=1:exit_"
         "code=86";
}
ATTN_OPTIONS __tsan_default_options() {
  return "symbolize=0:halt_on_error=1:atexit_sleep_ms=0:report_thread_leaks=0:exitcode=86";
}
