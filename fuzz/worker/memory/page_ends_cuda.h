// Tensors at the end of their page, of a batch on a GPU: each stretch has addresses of its own, of which the
// last ones are backed by memory, as much as was asked for so far, and the granule behind them never is.
#pragma once

#include <memory>
#include <string>

#include "fuzz/batch/device.h"

namespace attnfuzz::worker {

// nullptr, with a reason: this driver cannot.
std::unique_ptr<batch::PageEnds> open_page_ends(int device, std::string* why);

}  // namespace attnfuzz::worker
