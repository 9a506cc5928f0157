// Writes results for machines to a file, or to a standard output that holds nothing else.
#pragma once

#include <initializer_list>
#include <string>

namespace attnfuzz {

// Writes to the file, or to standard output if `path` is "-".
void write_to(const std::string& path, const std::string& text);

// If one of `paths` is "-", text for people goes to standard error while this object lives.
// Standard output then holds only the results.
class ResultsApart {
 public:
  explicit ResultsApart(std::initializer_list<std::string> paths);
  ~ResultsApart();
  ResultsApart(const ResultsApart&) = delete;
  ResultsApart& operator=(const ResultsApart&) = delete;

 private:
  int stdout_ = -1;  // the real standard output, for the results
};

}  // namespace attnfuzz
