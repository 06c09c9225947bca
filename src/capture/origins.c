/* origins.c: where in the user's program a capture is.
 *
 * Our own package's code is inlined like any other, but people look for their own lines: frames of the package are left
 * out of what is told, unless there are no others. */
#include "capture/evaluate.h"

#include "python/py.h"

#include <string.h>

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
static void write_stack(cr_capture *c) {
    c->stack.n = 0;
    for (int i = c->nlines; i-- > 0;) {
        PyCodeObject *code = (PyCodeObject *)c->lines[i].code;
        const cr_code *instructions = cr_code_get(code);
        const char *file = PyUnicode_AsUTF8(code->co_filename), *name = PyUnicode_AsUTF8(code->co_qualname);
        int line = instructions ? PyCode_Addr2Line(code, instructions->at[c->lines[i].instruction].own * 2) : 0;
        if (!file || !name || !instructions) PyErr_Clear();
        cr_str_addf(&c->stack, "File \"%s\", line %d, in %s\n", file ? file : "?", line, name ? name : "?");
    }
}

/* Most ops are in the line of the one before: the text is written anew only where some frame has moved. */
static cr_status find_origin(void *user, const cr_op *op, cr_origin *out) {
    cr_capture *c = user;
    int n = 0;
    bool moved = false;
    (void)op;
    for (cr_call_frame *f = c->frame; f && n < CR_DEEPEST; f = f->back) {
        if (is_library(f) && (f->back || n)) continue;
        moved |= n >= c->nlines || c->lines[n].code != f->code || c->lines[n].instruction != f->current;
        c->lines[n++] = (cr_position){ f->code, f->current };
    }
    moved |= n != c->nlines;
    c->nlines = n;
    if (moved) write_stack(c);
    if (n) out->stack_trace = cr_str_get(&c->stack);
    return cr_str_status(&c->stack);
}

void cr_capture_origins(cr_capture *c) {
    cr_trace_set_hooks(c->trace, &(cr_trace_hooks){ .origin = find_origin, .user = c });
}
