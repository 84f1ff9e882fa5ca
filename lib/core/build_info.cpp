#include "core/build_info.hpp"

#include <eplb_generated_build_info.hpp>

namespace eplb {

std::string_view version() {
    return EPLB_VERSION;
}
std::string_view commit() {
    return EPLB_COMMIT;
}

}  // namespace eplb
