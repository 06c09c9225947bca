/* origins.c: where in the user's program a capture is.
 *
 * Our own package's code is inlined like any other, but people look for their own lines: frames of the package are left
 * out of what is told, unless there are no others. */
#include "capture/evaluate.h"

#include "python/py.h"
#include "sym/shape.h"

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

/* "\n  called at file:line in name", innermost first. New reference; NULL: there is none, or no memory. */
static PyObject *callers_of(cr_call_frame *f) {
    PyObject *lines = NULL;
    int n = 0;
    while ((f = f->back) && n < CR_DEEPEST) {
        if (is_library(f)) continue;
        PyObject *longer = PyUnicode_FromFormat("%V\n  called at %U:%d in %U", lines, "", f->code->co_filename,
                                                line_of(f), f->code->co_qualname);
        Py_XSETREF(lines, longer);
        if (!lines) break;
        n++;
    }
    if (!lines) PyErr_Clear();
    return lines;
}

void cr_note_place(cr_capture *c) {
    cr_call_frame *f = c->frame;
    PyObject *type, *value, *trace;
    if (c->where || !f) return;
    PyErr_Fetch(&type, &value, &trace);
    while (f->back && is_library(f)) f = f->back;
    c->where = PyUnicode_FromFormat("%U:%d in %U", f->code->co_filename, line_of(f), f->code->co_qualname);
    Py_XSETREF(c->callers, callers_of(f));
    PyErr_Restore(type, value, trace);
}

/* As Python writes it, without the code: `File "PATH", line N, in NAME`. */
static void write_line(cr_capture *c, cr_position *at) {
    PyCodeObject *code = (PyCodeObject *)at->code;
    const cr_code *instructions = cr_code_get(code);
    const char *file = PyUnicode_AsUTF8(code->co_filename), *name = PyUnicode_AsUTF8(code->co_qualname);
    char number[16];
    int line = instructions ? PyCode_Addr2Line(code, instructions->at[at->instruction].own * 2) : 0;
    if (!file || !name || !instructions) PyErr_Clear();
    PyOS_snprintf(number, sizeof number, "%d", line);
    const char *const parts[] = { "File \"", file ? file : "?", "\", line ", number, ", in ", name ? name : "?", "\n" };
    for (size_t i = 0; i < CR_COUNT(parts); i++) cr_str_add(&c->stack, parts[i]);
    at->end = c->stack.n;
}

/* Innermost last. Most ops are close to the one before: of the text only those lines are written anew that are inside
 * of a frame that has moved. */
static cr_status find_origin(void *user, const cr_op *op, cr_origin *out) {
    cr_capture *c = user;
    cr_position now[CR_DEEPEST];
    int n = 0, same = 0; /* outermost lines */
    (void)op;
    for (cr_call_frame *f = c->frame; f && n < CR_DEEPEST; f = f->back)
        if (!is_library(f) || (!f->back && !n)) now[n++] = (cr_position){ f->code, f->current, 0 };
    for (; same < n && same < c->nlines; same++) {
        const cr_position *before = &c->lines[c->nlines - 1 - same];
        if (before->code != now[n - 1 - same].code || before->instruction != now[n - 1 - same].instruction) break;
        now[n - 1 - same].end = before->end;
    }
    if (same < n || n != c->nlines) {
        c->stack.n = same ? now[n - same].end : 0;
        if (c->stack.at) c->stack.at[c->stack.n] = 0;
        for (int i = n - same; i-- > 0;) write_line(c, &now[i]);
        memcpy(c->lines, now, (size_t)n * sizeof *now);
        c->nlines = n;
    }
    if (n) out->stack_trace = cr_str_get(&c->stack);
    return cr_str_status(&c->stack);
}

/* The user's line that runs now, for messages about numbers that depend on data. */
static cr_status find_line(void *user, cr_arena *arena, cr_user_line *out) {
    cr_capture *c = user;
    cr_call_frame *f = c->frame;
    PyObject *type, *value, *trace;
    while (f && f->back && is_library(f)) f = f->back;
    if (!f) return CR_OK;
    PyErr_Fetch(&type, &value, &trace);
    out->line = line_of(f);
    PyObject *module = PyImport_ImportModule("linecache"),
             *text = module ? PyObject_CallMethod(module, "getline", "Oi", f->code->co_filename, out->line) : NULL,
             *stripped = text ? PyObject_CallMethod(text, "strip", NULL) : NULL;
    const char *file = PyUnicode_AsUTF8(f->code->co_filename), *shown = stripped ? PyUnicode_AsUTF8(stripped) : NULL;
    if (file) out->file = cr_arena_strdup(arena, file);
    if (shown) out->text = cr_arena_strdup(arena, shown);
    bool failed = (file && !out->file) || (shown && !out->text);
    Py_XDECREF(module);
    Py_XDECREF(text);
    Py_XDECREF(stripped);
    PyErr_Clear();
    PyErr_Restore(type, value, trace);
    return failed ? CR_ENOMEM : CR_OK;
}

void cr_capture_lines(cr_capture *c) { cr_env_set_user_line(c->fakes.env, find_line, c); }

void cr_capture_origins(cr_capture *c) {
    cr_trace_set_hooks(c->trace, &(cr_trace_hooks){ .origin = find_origin, .user = c });
}
