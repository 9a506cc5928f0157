// How a kernel evaded the work or the check, where that is known.
//
// A verdict carries it but does not depend on it: an honest kernel with a bug may look like an exploit.
#pragma once

#include <cstdint>

namespace attnfuzz {

enum class Cheat : uint8_t {
  kNone,         // nothing is known
  kNothing,      // outputs were never written
  kInputs,       // inputs were written
  kLate,         // outputs were still being written after run() had returned
  kState,        // it returned an answer from an earlier call: alone, in a fresh worker, the case is right
  kLooserPlan,   // right by the bound of its plan, but not by the bound that the caller allows
  kRefusing,     // it refuses almost everything
  kEnds,         // it ended its own process
  kDescriptors,  // it closed or used up its worker's file descriptors
  kHoards,       // it allocates without end
  kSwarms,       // it starts threads without end
  // System calls that no kernel needs: starting a process, sending a signal, memory of another process or the
  // arena's protection, the network, files, crash handlers, privileges.
  kProcess,
  kSignal,
  kMemory,
  kNetwork,
  kFile,
  kHandler,
  kPrivilege,
};

// "nothing written", "earlier answer", ...; empty for kNone. JSON uses these texts.
const char* to_string(Cheat cheat);

}  // namespace attnfuzz
