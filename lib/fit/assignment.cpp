#include "fit/assignment.hpp"

#include <limits>

namespace eplb {

std::vector<int> solve_assignment(std::span<const std::int64_t> cost, int n) {
    constexpr std::int64_t unreached = std::numeric_limits<std::int64_t>::max();
    const auto size = static_cast<std::size_t>(n);
    const auto no_row = size;
    // Duals keep cost[row][column] - row_dual[row] - column_dual[column] >= 0, with equality where assigned. Column
    // `size` is the root of the augmenting path: it holds the row that is being assigned.
    std::vector<std::int64_t> row_dual(size), column_dual(size + 1), distance(size);
    std::vector<std::size_t> row_of(size + 1, no_row), came_from(size);
    std::vector<char> visited(size + 1);
    for (std::size_t new_row = 0; new_row < size; ++new_row) {
        distance.assign(size, unreached);
        visited.assign(size + 1, 0);
        row_of[size] = new_row;
        std::size_t column = size;
        while (row_of[column] != no_row) {
            visited[column] = 1;
            const std::size_t row = row_of[column];
            std::int64_t step = unreached;
            std::size_t nearest = size;
            for (std::size_t next = 0; next < size; ++next) {
                if (visited[next]) continue;
                const std::int64_t reduced = cost[row * size + next] - row_dual[row] - column_dual[next];
                if (reduced < distance[next]) {
                    distance[next] = reduced;
                    came_from[next] = column;
                }
                if (distance[next] < step) {
                    step = distance[next];
                    nearest = next;
                }
            }
            for (std::size_t seen = 0; seen <= size; ++seen) {
                if (visited[seen]) {
                    row_dual[row_of[seen]] += step;
                    column_dual[seen] -= step;
                } else if (seen < size) {
                    distance[seen] -= step;
                }
            }
            column = nearest;
        }
        while (column != size) {
            row_of[column] = row_of[came_from[column]];
            column = came_from[column];
        }
    }
    std::vector<int> column_of(size);
    for (std::size_t column = 0; column < size; ++column) column_of[row_of[column]] = static_cast<int>(column);
    return column_of;
}

}  // namespace eplb
