// How long work reports where it is and learns that it should stop, without knowing a terminal or a signal.
#pragma once

#include <functional>

namespace eplb {

struct Progress {
    // Called from one thread at a time with the units done so far; `best` is the best figure so far, or 0 where there
    // is none.
    std::function<void(int done, int total, double best)> report;
    // True when the work should end as soon as it can, by throwing Interrupted.
    std::function<bool()> stop_requested;

    bool stop() const { return stop_requested && stop_requested(); }
};

// Thrown by work that was asked to stop (Ctrl-C); not an Error, since nothing went wrong. A program that ends so exits
// with 130.
struct Interrupted {};

}  // namespace eplb
