// How a kernel got around the work, or around the check, where that is known.
//
// Told beside a verdict, which does not hang on it: a right kernel with a bug may look like a cheat.
#pragma once

#include <cstdint>

namespace attnfuzz {

enum class Cheat : uint8_t {
  kNone,         // none is known
  kNothing,      // outputs were never written
  kInputs,       // inputs were written
  kLate,         // outputs were still being written when run() had returned
  kState,        // an answer from an earlier call: alone, in a fresh worker, the case is right
  kLooserPlan,   // right by the bound that its plan asks for, and not by the one that the caller allows
  kRefusing,     // it takes next to nothing of what is asked
  kEnds,         // it ended its own process
  kDescriptors,  // it closed or used up what its worker talks through
  kHoards,       // memory without end
  kSwarms,       // threads without end
  // System calls that no kernel needs: another process begun, a signal sent, memory of another process or
  // the arena's protection, the network, files, handlers of crashes, privileges.
  kProcess,
  kSignal,
  kMemory,
  kNetwork,
  kFile,
  kHandler,
  kPrivilege,
};

// "nothing written", "earlier answer", ...; of kNone empty. JSON's.
const char* to_string(Cheat cheat);

}  // namespace attnfuzz
