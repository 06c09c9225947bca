/* origin.h: where in the user's Python code a recorded call comes from. */
#ifndef CR_PY_ORIGIN_H
#define CR_PY_ORIGIN_H

#include "graph/graph.h"
#include "python/py.h"

/* A frame that a call came through: CPython's own, or one of a capture. All of it is borrowed. */
typedef struct cr_py_spot {
    const void *frame;
    PyCodeObject *code;
    int at;               /* the instruction, in bytes */
    PyObject *globals;    /* NULL: those of `frame`, which is a PyFrameObject */
} cr_py_spot;
typedef cr_status (*cr_py_visit)(void *to, const cr_py_spot *spot);

/* The frames of this thread's program, from the innermost outwards: those of the capture that exports it, else
 * CPython's own. (tracer.c) */
cr_status cr_py_visit_frames(cr_py_visit visit, void *to);
cr_status cr_py_visit_own_frames(cr_py_visit visit, void *to);
/* The innermost line outside of this package: its code, a new reference; NULL: there is none. (shape_type.c) */
PyCodeObject *cr_py_user_line(int *line);
PyObject *cr_py_user_text(void); /* "model.py:12 in forward: if x.sum() > 0:", or None; NULL: exception */

/* The texts live as long as the finder. */
typedef struct cr_py_origins {
    /* Visits the frames, from the innermost outwards. NULL: CPython's own. */
    cr_status (*walk)(void *user, cr_py_visit visit, void *to);
    void *user;
    cr_arena arena;
    cr_map lines;         /* (code, instruction) -> text of the frame's two lines */
    cr_map counts;        /* name of a function -> how often it was called */
    PyObject *codes;      /* list: keeps the code objects of `lines` alive */
    PyObject *modules;    /* {id(module): (path, type)} */
    CR_VEC(const char *) stack; /* module stack texts, innermost last */
    cr_map calls;         /* path -> how often the module was called */
    cr_str text, source;
    const void *last_frame;
    int last_at, last_outer;
    int depth;            /* frames below the program's own */
    cr_str lines_given, call_given, last_call; /* of a program that is recorded again: what it says itself */
    const char *function_given; /* "kind.name", in call_given; NULL: none is given */
} cr_py_origins;
void cr_py_origins_init(cr_py_origins *o);
void cr_py_origins_dispose(cr_py_origins *o);
/* A module's call begins or ends. 0, or -1 with an exception. */
int cr_py_origins_enter(cr_py_origins *o, PyObject *module);
void cr_py_origins_leave(cr_py_origins *o);
/* The calls that follow come from these lines, below those of the frames, and from this call ("linear_1") of a function
 * ("builtin_function_or_method.linear"). All NULL: from where they are made. */
cr_status cr_py_origins_replay(cr_py_origins *o, const char *lines, const char *call, const char *function);
cr_status cr_py_origins_find(cr_py_origins *o, const cr_op *op, cr_origin *out);

#endif
