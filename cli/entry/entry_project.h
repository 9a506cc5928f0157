// The text of the project that an entry (entry.h) is built from.
//
//   plug_in.cu       the adapter: what the kernel takes, deduced from the names in the call and from --takes
//   source.cu        the user's source, and behind it two functions that the adapter calls
//   CMakeLists.txt   builds both into one library
//
// The source is a translation unit of its own, so that its names and macros do not clash with ours
// (kernels/cuda_source/adapter/source.h).
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "cli/entry/entry.h"

namespace attnfuzz {

// True if the call names a field of attn_entry::Args: "S" in 'launch(q, k, v, o, S, D)'. `field`: a regular
// expression.
bool names_in_call(const Entry& entry, const std::string& field);

// The folders in which the compiler looks for headers of the source; the source's own is the first.
std::vector<std::string> header_folders(const Entry& entry);

// The files of the project: text by file name. The project lies in `folder` and builds the library attn_NAME.
std::map<std::string, std::string> project_files(const Entry& entry, const std::string& name,
                                                 const std::filesystem::path& folder);

}  // namespace attnfuzz
