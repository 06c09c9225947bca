/* origins.c: where in the user's program a capture is.
 *
 * Our own package's code is inlined like any other, but people look for their own lines: frames of the package are left
 * out of what is told, unless there are no others. */
#include "capture/evaluate.h"

#include "python/py.h"

#include <string.h>

enum { DEEPEST = 32 }; /* frames of a node's stack; recursion may have any number, and the innermost tell most */

static bool is_library(cr_call_frame *f) {
    if (!f->library) {
        PyObject *name = PyDict_GetItemString(f->globals, "__name__");
        const char *text = name && PyUnicode_Check(name) ? PyUnicode_AsUTF8(name) : NULL;
        f->library = text && (!strcmp(text, "cresset") || !strncmp(text, "cresset.", 8)) ? 1 : -1;
    }
    return f->library > 0;
}

static int line_of(const cr_call_frame *f) {
    return PyCode_Addr2Line(f->code, f->instructions->at[f->current].own * 2);
}

void cr_note_place(cr_capture *c) {
    cr_call_frame *f = c->frame;
    PyObject *type, *value, *trace;
    if (c->where || !f) return;
    PyErr_Fetch(&type, &value, &trace);
    while (f->back && is_library(f)) f = f->back;
    c->where = PyUnicode_FromFormat("%U:%d in %U", f->code->co_filename, line_of(f), f->code->co_qualname);
    PyErr_Restore(type, value, trace);
}

/* As Python writes it, without the code: `File "PATH", line N, in NAME`, innermost last. */
static cr_status find_origin(void *user, const cr_op *op, cr_origin *out) {
    cr_capture *c = user;
    cr_call_frame *shown[DEEPEST];
    int n = 0;
    (void)op;
    for (cr_call_frame *f = c->frame; f && n < DEEPEST; f = f->back)
        if (!is_library(f) || (!f->back && !n)) shown[n++] = f;
    cr_str_dispose(&c->stack);
    cr_str_init(&c->stack);
    while (n--) {
        const PyCodeObject *code = shown[n]->code;
        const char *file = PyUnicode_AsUTF8(code->co_filename), *name = PyUnicode_AsUTF8(code->co_qualname);
        if (!file || !name) PyErr_Clear();
        cr_str_addf(&c->stack, "File \"%s\", line %d, in %s\n", file ? file : "?", line_of(shown[n]),
                    name ? name : "?");
    }
    if (c->stack.n) out->stack_trace = cr_str_get(&c->stack);
    return cr_str_status(&c->stack);
}

void cr_capture_origins(cr_capture *c) {
    cr_trace_set_hooks(c->trace, &(cr_trace_hooks){ .origin = find_origin, .user = c });
}
