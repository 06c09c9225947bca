// model.hpp: a compiled model as a C++ object: failures are exceptions, memory frees itself. C++17, the standard library only.
#pragma once

#include "cresset/abi.h"

#include <memory>
#include <stdexcept>
#include <vector>

namespace cresset {

class Model {
public:
    /// `threads` 0: as many as the process may use.
    explicit Model(int threads = 0) : api_(cresset_model(CRESSET_ABI_MAJOR)) {
        if (!api_) throw std::runtime_error("the library has another version of the interface");
        cresset_options options{};
        options.struct_size = sizeof options;
        options.threads = threads;
        cresset_instance *instance = nullptr;
        check(api_->create(api_, &options, &instance, message_, sizeof message_));
        instance_ = std::shared_ptr<cresset_instance>(instance, api_->destroy);
    }

    /// One result. Its memory is the model's, and keeps the model alive.
    class Result {
    public:
        std::vector<int64_t> size() const { return {value_->size, value_->size + value_->rank}; }
        template <class T> const T *data() const { return static_cast<const T *>(value_->data); }
    private:
        friend class Model;
        std::shared_ptr<cresset_value> value_;
    };

    /// Row-major data that the caller keeps until run() returns.
    static cresset_value tensor(const float *data, const std::vector<int64_t> &size) {
        cresset_value v{};
        v.struct_size = sizeof v;
        v.kind = CRESSET_TENSOR;
        v.dtype = CRESSET_F32;
        v.rank = static_cast<int32_t>(size.size());
        v.size = size.data();
        v.data = const_cast<float *>(data);
        return v;
    }

    std::vector<Result> run(const std::vector<cresset_value> &inputs, int method = 0) {
        if (method < 0 || method >= api_->nmethods) throw std::out_of_range("there is no such method");
        std::vector<cresset_value> values(api_->methods[method].noutputs);
        for (auto &v : values) v.struct_size = sizeof v;
        check(api_->run(instance_.get(), method, inputs.data(), static_cast<int32_t>(inputs.size()), values.data(), static_cast<int32_t>(values.size()), message_, sizeof message_));
        std::vector<Result> results(values.size());
        for (size_t i = 0; i < values.size(); i++)
            results[i].value_ = std::shared_ptr<cresset_value>(new cresset_value(values[i]), [api = api_, instance = instance_](cresset_value *v) {
                api->release(instance.get(), v);
                delete v;
            });
        return results;
    }

private:
    void check(int code) const {
        if (code) throw std::runtime_error(message_);
    }
    const cresset_api *api_;
    std::shared_ptr<cresset_instance> instance_;
    char message_[256] = "";
};

} // namespace cresset
