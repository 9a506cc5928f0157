// Reads what a worker left in the wire about its kernel, and about its exit.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "fuzz/host/wire.h"
#include "properties/judge/target/target.h"

namespace attnfuzz {

// Parses the description; nothing if it is malformed.
std::optional<KernelInfo> kernel_info(const wire::Description& description);

// "SIGSEGV while running, 8 bytes past the end of k's slot, in libattn_fa1_cpu.so+0x1234".
// `ending`: how the process ended (WorkerProcess::end).
std::string exit_message(const std::string& ending, const wire::Wire& wire, const std::string& library);

// The exploit that ended a confined worker, as far as its exit shows.
Exploit exploit_of(const wire::Wire& wire, ExitReason exit_reason, std::optional<int> exit_status);

// "run()", "plan()": the call that a worker is in.
std::string call_in_words(wire::Doing doing);

// Says what lies at an address in the worker: "byte 4352 of the memory of k".
std::string place_of(uint64_t address, const wire::Wire& wire);

// The reported fault, with its kind and strings sanitised; nothing if there was none.
std::optional<Fault> fault(const wire::Report& report);

}  // namespace attnfuzz
