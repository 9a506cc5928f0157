// A main without libFuzzer: runs a target on the given files and folders.
//
//   replay_fa1 corpus/seeds crash-3fb2 --build=asan
//
// Exit status: 0 if something was judged and nothing failed; 1 if everything was refused, because nothing
// was checked then; 2 if there is no file, or if one cannot be read. A failure aborts, as under libFuzzer.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

#include "base/files.h"

extern "C" int LLVMFuzzerInitialize(int* argc, char*** argv);
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

int main(int argc, char** argv) {
  namespace fs = std::filesystem;
  LLVMFuzzerInitialize(&argc, &argv);
  std::vector<std::string> files;
  for (int i = 1; i < argc; ++i) {
    if (argv[i][0] == '-') continue;
    std::error_code error;
    if (fs::is_directory(argv[i], error)) {
      for (const auto& entry : fs::recursive_directory_iterator(argv[i])) {
        if (entry.is_regular_file()) files.push_back(entry.path().string());
      }
    } else {
      files.emplace_back(argv[i]);
    }
  }
  if (files.empty()) {
    std::fprintf(stderr, "%s: no files to replay: name files, or a folder that has some\n", argv[0]);
    return 2;
  }
  std::sort(files.begin(), files.end());
  size_t judged = 0;
  for (const std::string& file : files) {
    const auto text = attnfuzz::read_file(file);
    if (const auto* error = std::get_if<attnfuzz::DecodeError>(&text)) {
      std::fprintf(stderr, "%s\n", error->message.c_str());
      return 2;
    }
    const std::string& bytes = std::get<std::string>(text);
    std::fprintf(stderr, "%s\n", file.c_str());
    const int result = LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size());
    if (result == 0) ++judged;
    if (result != 0) std::fprintf(stderr, "  refused\n");
  }
  std::printf("%zu files: %zu judged, %zu refused\n", files.size(), judged, files.size() - judged);
  return judged > 0 ? 0 : 1;
}
