// Keys of a dump that nobody reads, as findings: each of the first few, and how many more.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "core/finding.hpp"

namespace eplb {

class ExtraKeys {
  public:
    // `where` is a place inside the file, or empty; `what` is `key "x"`.
    void add(std::string where, const std::string& what);
    void move_to(std::vector<Finding>& findings);

  private:
    std::vector<Finding> first_;
    std::size_t count_ = 0;
};

}  // namespace eplb
