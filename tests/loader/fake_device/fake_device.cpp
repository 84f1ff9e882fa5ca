// An out-of-tree device for tests (PrivateUse1, "privateuseone:0"). Its tensors live on pages that crash when the host
// touches them; operators run on a second mapping of the same memory. So code that reads device memory from the host
// dies with SIGSEGV, and every copy between host and device is counted.
//
// Operators (torch.ops.fake_device):
//   counters() -> int[]     bytes host -> device, bytes device -> host, bytes device -> device, copies host <-> device
//   reset_counters() -> ()
//   touch(Tensor t) -> int  reads the first byte through the tensor's own pointer: must crash
#include <ATen/ATen.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/EmptyTensor.h>
#include <ATen/native/Resize.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <sys/mman.h>
#include <torch/library.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <map>
#include <mutex>
#include <stdexcept>

namespace {

constexpr auto fake = c10::DeviceType::PrivateUse1;

// ---- memory ---------------------------------------------------------------------------------------------------------

struct Block {
    std::size_t bytes;
    std::byte* shadow;  // the readable mapping
};

std::mutex blocks_mutex;
std::map<const void*, Block> blocks;  // by the address that tensors see

std::size_t whole_pages(std::size_t bytes) {
    const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    return (std::max<std::size_t>(bytes, 1) + page - 1) / page * page;
}

void release(void* address) {
    const std::lock_guard lock(blocks_mutex);
    const auto found = blocks.find(address);
    if (found == blocks.end()) return;
    munmap(found->second.shadow, found->second.bytes);
    munmap(address, found->second.bytes);
    blocks.erase(found);
}

struct FakeAllocator final : at::Allocator {
    at::DataPtr allocate(std::size_t wanted) const override {
        const std::size_t bytes = whole_pages(wanted);
        const int file = memfd_create("fake_device", 0);
        if (file < 0 || ftruncate(file, static_cast<off_t>(bytes)) != 0)
            throw std::runtime_error("fake device: no memory");
        void* address = mmap(nullptr, bytes, PROT_NONE, MAP_SHARED, file, 0);
        void* shadow = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
        close(file);
        if (address == MAP_FAILED || shadow == MAP_FAILED) throw std::runtime_error("fake device: no memory");
        const std::lock_guard lock(blocks_mutex);
        blocks[address] = {bytes, static_cast<std::byte*>(shadow)};
        return {address, address, &release, c10::Device(fake, 0)};
    }
    at::DeleterFnPtr raw_deleter() const override { return &release; }
};

FakeAllocator allocator;

// A CPU tensor on the readable mapping of a device tensor: same sizes, strides and bytes.
at::Tensor shadow_of(const at::Tensor& tensor) {
    const auto options = at::TensorOptions().dtype(tensor.dtype());
    if (tensor.storage().nbytes() == 0) return at::empty_strided(tensor.sizes(), tensor.strides(), options);
    const std::lock_guard lock(blocks_mutex);
    const Block& block = blocks.at(tensor.storage().data());
    const c10::Storage storage = tensor.storage();
    const at::Tensor bytes = at::from_blob(
        block.shadow, {static_cast<std::int64_t>(storage.nbytes())}, [storage](void*) {},
        at::TensorOptions().dtype(at::kByte));
    return at::empty({0}, options).set_(bytes.storage(), tensor.storage_offset(), tensor.sizes(), tensor.strides());
}

// ---- counters -------------------------------------------------------------------------------------------------------

std::array<std::atomic<std::int64_t>, 4> counted{};

void count(bool from_device, bool to_device, std::size_t bytes) {
    const std::size_t kind = from_device && to_device ? 2 : from_device ? 1 : 0;
    counted[kind] += static_cast<std::int64_t>(bytes);
    if (from_device != to_device) ++counted[3];
}

std::vector<std::int64_t> counters() {
    return {counted[0], counted[1], counted[2], counted[3]};
}

void reset_counters() {
    for (auto& counter : counted) counter = 0;
}

std::int64_t touch(const at::Tensor& tensor) {
    return static_cast<std::int64_t>(*static_cast<const volatile unsigned char*>(tensor.data_ptr()));
}

// ---- operators ------------------------------------------------------------------------------------------------------

at::Tensor empty_memory_format(c10::IntArrayRef sizes, c10::optional<c10::ScalarType> dtype, c10::optional<c10::Layout>,
                               c10::optional<c10::Device>, c10::optional<bool>,
                               c10::optional<c10::MemoryFormat> format) {
    return at::detail::empty_generic(sizes, &allocator, c10::DispatchKeySet(c10::DispatchKey::PrivateUse1),
                                     c10::dtype_or_default(dtype), format);
}

at::Tensor empty_strided(c10::IntArrayRef sizes, c10::IntArrayRef strides, c10::optional<c10::ScalarType> dtype,
                         c10::optional<c10::Layout>, c10::optional<c10::Device>, c10::optional<bool>) {
    return at::detail::empty_strided_generic(
        sizes, strides, &allocator, c10::DispatchKeySet(c10::DispatchKey::PrivateUse1), c10::dtype_or_default(dtype));
}

bool on_device(const at::Tensor& tensor) {
    return tensor.device().type() == fake;
}

at::Tensor as_host(const at::Tensor& tensor) {
    return on_device(tensor) ? shadow_of(tensor) : tensor;
}

at::Tensor copy_from(const at::Tensor& self, const at::Tensor& target, bool) {
    count(on_device(self), on_device(target), self.nbytes());
    as_host(target).copy_(as_host(self));
    return target;
}

at::Tensor copy_from_and_resize(const at::Tensor& self, const at::Tensor& target) {
    return copy_from(self, target.resize_(self.sizes()), false);
}

at::Tensor alias(const at::Tensor& self, c10::IntArrayRef sizes, c10::IntArrayRef strides, std::int64_t offset) {
    at::Tensor view = at::detail::make_tensor<c10::TensorImpl>(c10::TensorImpl::VIEW, c10::Storage(self.storage()),
                                                               self.key_set(), self.dtype());
    view.unsafeGetTensorImpl()->set_storage_offset(offset);
    view.unsafeGetTensorImpl()->set_sizes_and_strides(sizes, strides);
    return view;
}

at::Tensor as_strided(const at::Tensor& self, c10::IntArrayRef sizes, c10::IntArrayRef strides,
                      c10::optional<std::int64_t> offset) {
    return alias(self, sizes, strides, offset.value_or(self.storage_offset()));
}

at::Tensor reshape_alias(const at::Tensor& self, c10::IntArrayRef sizes, c10::IntArrayRef strides) {
    return alias(self, sizes, strides, self.storage_offset());
}

at::Tensor view(const at::Tensor& self, c10::IntArrayRef sizes) {
    const at::Tensor host = shadow_of(self).view(sizes);
    return alias(self, host.sizes(), host.strides(), self.storage_offset());
}

at::Tensor& set_storage(at::Tensor& self, c10::Storage source, std::int64_t offset, c10::IntArrayRef sizes,
                        c10::IntArrayRef strides) {
    self.unsafeGetTensorImpl()->set_storage_keep_dtype(std::move(source));
    self.unsafeGetTensorImpl()->set_storage_offset(offset);
    self.unsafeGetTensorImpl()->set_sizes_and_strides(sizes, strides);
    return self;
}

// Everything else runs as the CPU's kernel on the shadow mapping, as a device would run its own: no transfer, except
// for reading a scalar, which is one.
void run_on_shadow(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
    const auto& schema = op.schema();
    const std::size_t arguments = schema.arguments().size(), first = stack->size() - arguments;
    if (schema.name() == "aten::_local_scalar_dense") count(true, false, (*stack)[first].toTensor().nbytes());
    std::vector<c10::IValue> given(stack->begin() + static_cast<std::ptrdiff_t>(first), stack->end());
    for (std::size_t index = 0; index < arguments; ++index) {
        c10::IValue& value = (*stack)[first + index];
        if (value.isTensor() && value.toTensor().defined()) {
            value = as_host(value.toTensor());
        } else if (value.isTensorList()) {
            c10::List<at::Tensor> hosts;
            for (const at::Tensor& tensor : value.toTensorVector()) hosts.push_back(as_host(tensor));
            value = hosts;
        } else if (value.isDevice()) {
            value = c10::Device(c10::kCPU);
        }
    }
    op.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::CPU), stack);
    const std::size_t results = schema.returns().size(), first_result = stack->size() - results;
    for (std::size_t index = 0; index < results; ++index) {
        c10::IValue& value = (*stack)[first_result + index];
        if (!value.isTensor()) continue;
        const auto* returned = schema.returns()[index].alias_info();
        bool aliased = false;
        for (std::size_t argument = 0; returned != nullptr && argument < arguments && !aliased; ++argument) {
            const auto* passed = schema.arguments()[argument].alias_info();
            if (passed == nullptr || !(*passed == *returned) || !given[argument].isTensor()) continue;
            at::Tensor target = given[argument].toTensor();
            if (target.sizes() != value.toTensor().sizes()) {
                target.resize_(value.toTensor().sizes());
                shadow_of(target).copy_(value.toTensor());
            }
            value = target;
            aliased = true;
        }
        if (aliased) continue;
        const at::Tensor host = value.toTensor();
        at::Tensor made = at::empty_strided(host.sizes(), host.strides(), host.options().device(c10::Device(fake, 0)));
        shadow_of(made).copy_(host);
        value = made;
    }
}

const at::Tensor& resize(const at::Tensor& self, c10::IntArrayRef sizes, c10::optional<c10::MemoryFormat>) {
    if (self.sizes() == sizes) return self;
    at::Tensor larger = at::empty(sizes, self.options());
    self.unsafeGetTensorImpl()->set_storage_keep_dtype(larger.storage());
    self.unsafeGetTensorImpl()->set_storage_offset(0);
    self.unsafeGetTensorImpl()->set_sizes_contiguous(sizes);
    return self;
}

// ---- device ---------------------------------------------------------------------------------------------------------

struct FakeGuard final : c10::impl::DeviceGuardImplInterface {
    c10::DeviceType type() const override { return fake; }
    c10::Device exchangeDevice(c10::Device) const override { return {fake, 0}; }
    c10::Device getDevice() const override { return {fake, 0}; }
    void setDevice(c10::Device) const override {}
    void uncheckedSetDevice(c10::Device) const noexcept override {}
    c10::Stream getStream(c10::Device device) const noexcept override {
        return c10::Stream(c10::Stream::DEFAULT, device);
    }
    c10::Stream exchangeStream(c10::Stream stream) const noexcept override { return stream; }
    c10::DeviceIndex deviceCount() const noexcept override { return 1; }
    void record(void**, const c10::Stream&, c10::DeviceIndex, c10::EventFlag) const override {}
    void block(void*, const c10::Stream&) const override {}
    bool queryEvent(void*) const override { return true; }
    void destroyEvent(void*, c10::DeviceIndex) const noexcept override {}
};

C10_REGISTER_GUARD_IMPL(PrivateUse1, FakeGuard);
[[maybe_unused]] const bool allocator_is_set = [] {
    c10::SetAllocator(fake, &allocator);
    return true;
}();

}  // namespace

TORCH_LIBRARY_IMPL(_, PrivateUse1, library) {
    library.fallback(torch::CppFunction::makeFromBoxedFunction<&run_on_shadow>());
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, library) {
    library.impl("empty.memory_format", TORCH_FN(empty_memory_format));
    library.impl("empty_strided", TORCH_FN(empty_strided));
    library.impl("_copy_from", TORCH_FN(copy_from));
    library.impl("_copy_from_and_resize", TORCH_FN(copy_from_and_resize));
    library.impl("as_strided", TORCH_FN(as_strided));
    library.impl("_reshape_alias", TORCH_FN(reshape_alias));
    library.impl("view", TORCH_FN(view));
    library.impl("resize_", TORCH_FN(resize));
    library.impl("set_.source_Storage_storage_offset", TORCH_FN(set_storage));
}

TORCH_LIBRARY(fake_device, library) {
    library.def("counters", counters);
    library.def("reset_counters", reset_counters);
    library.def("touch", touch);
}
