/* page.c: _page(title, json, path=None): data as a page, returned or written. */
#include "python/py.h"

#include "cresset/page.h"

static PyObject *page(PyObject *module, PyObject *args) {
    const char *title, *json;
    PyObject *path = NULL, *result = NULL;
    cr_str out;
    (void)module;
    if (!PyArg_ParseTuple(args, "ss|O&:_page", &title, &json, PyUnicode_FSConverter, &path)) return NULL;
    cr_str_init(&out);
    cr_status status = cr_page_write(title, json, &out);
    if (!status && path) status = cr_str_save(&out, PyBytes_AS_STRING(path));
    if (status) cr_py_raise(status);
    else result = path ? Py_NewRef(Py_None) : PyUnicode_FromStringAndSize(cr_str_get(&out), (Py_ssize_t)out.n);
    cr_str_dispose(&out);
    Py_XDECREF(path);
    return result;
}

static PyMethodDef functions[] = {
    { "_page", page, METH_VARARGS,
      "_page(title, json, path=None): the HTML page that shows the data, as a text or in a file." },
    { NULL, NULL, 0, NULL },
};

int cr_py_page_init(PyObject *module) { return PyModule_AddFunctions(module, functions); }
