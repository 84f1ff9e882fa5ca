// Numbers of a text, collected one by one: whole numbers stay whole, and one literal with a fraction or an exponent
// makes all of them doubles.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/tensor.hpp"

namespace eplb {

class NumberList {
  public:
    void add(std::int64_t value);
    void add(double value);
    std::size_t size() const { return reals_.empty() ? integers_.size() : reals_.size(); }
    bool whole() const { return reals_.empty(); }
    const std::vector<std::int64_t>& integers() const { return integers_; }  // only where whole()

    // A contiguous tensor that owns the values, int64 or float64. Throws Error{internal} when they do not fill `shape`.
    Tensor tensor(std::vector<std::int64_t> shape) &&;

  private:
    std::vector<std::int64_t> integers_;
    std::vector<double> reals_;
};

// A contiguous int64 tensor that owns its values, of any shape.
Tensor tensor_of(std::vector<std::int64_t> values, std::vector<std::int64_t> shape);

}  // namespace eplb
