// attnfuzz-translate DIRECTORY STAMP [--mirror] [-I FOLDER]... SOURCE...
//
// Writes translations of CUDA sources and of the headers they include to DIRECTORY, with
// overlay.yaml for clang's -ivfsoverlay, or as a mirror for g++ (translate.h), and a
// dependency file STAMP.d; then touches STAMP.
#include <cstdio>
#include <exception>
#include <fstream>

#include "kernels/cuda_source/translate/translate.h"

int main(int argc, char** argv) {
  std::vector<std::string> sources, folders;
  bool mirror = false;
  for (int i = 3; i < argc; ++i) {
    const std::string argument = argv[i];
    if (argument == "-I" && i + 1 < argc) {
      folders.emplace_back(argv[++i]);
    } else if (argument == "--mirror") {
      mirror = true;
    } else {
      sources.push_back(argument);
    }
  }
  if (sources.empty()) {
    std::fprintf(stderr, "usage: attnfuzz-translate DIRECTORY STAMP [--mirror] [-I FOLDER]... SOURCE...\n");
    return 2;
  }
  try {
    const auto translated = attnfuzz::translate_all(sources, folders);
    if (mirror) {
      attnfuzz::write_mirror(translated, folders, argv[1]);
    } else {
      attnfuzz::write_overlay(translated, argv[1]);
    }
    std::ofstream rule(std::string(argv[2]) + ".d");
    rule << argv[2] << ":";
    for (const auto& [path, text] : translated) rule << " " << path;
    rule << "\n";
    std::ofstream stamp(argv[2]);
    if (!rule || !stamp) throw std::runtime_error(std::string("cannot write ") + argv[2]);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return 0;
}
