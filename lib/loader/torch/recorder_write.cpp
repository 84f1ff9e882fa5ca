// Writes a summed window: the count file and its sidecar, whole or not at all.
#include <ATen/core/Tensor.h>
#include <torch/library.h>

#include <filesystem>
#include <string>
#include <vector>

#include "core/error.hpp"
#include "core/tensor_view.hpp"
#include "counts_io/count_file.hpp"
#include "counts_io/window_sidecar.hpp"
#include "files/digest.hpp"
#include "files/output.hpp"

namespace eplb {
namespace {

std::string format_of(const std::filesystem::path& path) {
    const std::string extension = path.extension().string();
    if (extension == ".pt") return "pt";
#ifdef EPLB_HAVE_HDF5
    if (extension == ".h5" || extension == ".hdf5") return "h5";
    constexpr const char* offered = "a window is written as .pt or .h5";
#else
    constexpr const char* offered = "this library writes a window as .pt: it was built without HDF5";
#endif
    throw Error(ErrorCode::output, path.string(), offered, "choose a file name that ends so");
}

Tensor as_counts(const at::Tensor& counts) {
    if (!counts.device().is_cpu() || !counts.is_contiguous() || counts.dim() != 3) {
        throw Error(ErrorCode::internal, "write_window",
                    "counts are a contiguous host tensor [record slots, layers, experts]");
    }
    const auto size = static_cast<std::size_t>(counts.numel());
    if (counts.scalar_type() == at::kInt)
        return view_of(std::span(counts.data_ptr<std::int32_t>(), size), counts.sizes().vec());
    if (counts.scalar_type() == at::kLong)
        return view_of(std::span(counts.data_ptr<std::int64_t>(), size), counts.sizes().vec());
    throw Error(ErrorCode::input, "write_window", "counts are int32 or int64");
}

// Returns the SHA-256 of the count file. The sidecar is renamed first: a count file under its final name always has
// one.
std::string write_window(const std::string& path, const at::Tensor& counts, const std::string& sidecar_text,
                         bool force) {
    WindowSidecar sidecar = decode_window_sidecar(sidecar_text);
    const std::vector<std::byte> bytes = encode_counts(format_of(path), as_counts(counts), sidecar.rank.value_or(0));
    sidecar.file = std::filesystem::path(path).filename().string();
    sidecar.sha256 = sha256_hex(bytes);
    OutputSet output(force);
    output.add(window_sidecar_path(path), encode_window_sidecar(sidecar));
    output.add(path, bytes);
    output.commit();
    return sidecar.sha256;
}

}  // namespace
}  // namespace eplb

TORCH_LIBRARY_FRAGMENT(eplb, library) {
    library.def("write_window(str path, Tensor counts, str sidecar, bool force) -> str");
}

TORCH_LIBRARY_IMPL(eplb, CompositeImplicitAutograd, library) {
    library.impl("write_window", eplb::write_window);
}
