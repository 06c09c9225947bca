/* module.c: cresset._C. Each file of the folder adds its part; the table of ops is not built until an op is asked
 * for. */
#include "python/py.h"
#include "python/torch_tensor.h"
#include "python/tree.h"

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "cresset._C",
    .m_doc = "Tensors and the op table. Use it through the package cresset.",
    .m_size = -1,
};

PyMODINIT_FUNC PyInit__C(void);
PyMODINIT_FUNC PyInit__C(void) {
    static int (*const parts[])(PyObject *) = {
        cr_py_errors_init,      cr_py_dtypes_init,  cr_py_device_init,     cr_py_size_init,    cr_py_tensor_init,
        cr_py_calls_init,       cr_py_results_init, cr_py_storage_init,    cr_py_data_init,    cr_py_buffer_init,
        cr_py_dlpack_init,      cr_py_random_init,  cr_py_state_init,      cr_py_table_init,   cr_py_check_init,
        cr_py_sym_init,         cr_py_graph_init,   cr_py_trace_init,      cr_py_program_init, cr_py_tree_init,
        cr_py_aot_init,         cr_py_aot_type_init, cr_py_torch_tensor_init, cr_py_torch_graph_init,
        cr_py_torch_sizes_init, cr_py_torch_parts_init,  cr_py_torch_function_init, cr_py_torch_frontend_init,
        cr_py_native_init,      cr_py_shape_init,   cr_py_decompose_init,  cr_py_tracer_init,  cr_py_program_new_init,
        cr_py_program_save_init, cr_py_safetensors_init, cr_py_body_init, cr_py_torch_file_init, cr_py_frontend_init,
        cr_py_opaque_init,      cr_py_library_init, cr_py_autograd_init,   cr_py_vmap_init,
        cr_py_page_init,        cr_capture_init,
    };
    cr_status status = cr_environment_check();
    if (status) return cr_py_raise(status);
    PyObject *module = PyModule_Create(&definition);
    for (size_t i = 0; module && i < CR_COUNT(parts); i++)
        if (parts[i](module)) Py_CLEAR(module);
    return module;
}
