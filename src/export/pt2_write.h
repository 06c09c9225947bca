/* pt2_write.h: what the files that write an archive share. A writer belongs to one thread and to one call of
 * cr_program_save; texts are built in `text`, whose failure is sticky; `status` is the first failure of another
 * kind. */
#ifndef CR_PT2_WRITE_H
#define CR_PT2_WRITE_H

#include "archive/json.h"
#include "export/program.h"

enum { CR__SCHEMA_MAJOR = 8, CR__SCHEMA_MINOR = 20, CR__ATEN_OPSET = 10 };

typedef struct cr__pt2_writer {
    const cr_program *p;
    cr_env *env;           /* of its graph, borrowed */
    cr_str text;
    cr_json_writer j;      /* to `text` */
    cr_status status;
    cr_error *error;       /* what the first failure said; owned */
    const char *folder;    /* which source files are named from; NULL: as they are */
    const char *value;     /* whose meta is being written; NULL: nobody's that is named */
    uint32_t slot;         /* of its sizes, strides and offset, the next */
} cr__pt2_writer;

/* Begins a text anew. */
void cr__writer_begin(cr__pt2_writer *w);
/* The first failure since it began. */
cr_status cr__writer_status(const cr__pt2_writer *w);
static inline void cr__writer_fail(cr__pt2_writer *w, cr_status status) {
    if (w->status) return;
    w->status = status;
    w->error = cr_error_take(); /* what is tried later must not overwrite it */
}

static inline void cr__put_text(cr_json_writer *j, const char *key, const char *text) {
    cr_json_key(j, key);
    cr_json_string(j, text, strlen(text));
}
static inline void cr__put_int(cr_json_writer *j, const char *key, int64_t i) {
    cr_json_key(j, key);
    cr_json_int(j, i);
}
static inline void cr__put_bool(cr_json_writer *j, const char *key, bool b) {
    cr_json_key(j, key);
    cr_json_bool(j, b);
}

/* ---- pt2_write_meta.c ---- */
int cr__schema_dtype(int dtype);
int cr__schema_format(int format);
void cr__write_device(cr__pt2_writer *w, cr_device device);
void cr__write_float(cr__pt2_writer *w, double f);
/* {"as_int": 3} or {"as_expr": ...} */
void cr__write_dim(cr__pt2_writer *w, cr_dim d);
void cr__write_sym(cr__pt2_writer *w, cr_sym e, cr_type type);
void cr__write_meta(cr__pt2_writer *w, const cr_meta *m);
/* {"as_int": 3}, {"as_none": true}, ... of a number, a text or None. */
void cr__write_constant(cr__pt2_writer *w, const cr_arg *a);
/* {"as_tensor": {"name": ..}}, {"as_sym_int": {"as_name": ..}}, ... */
void cr__write_named(cr__pt2_writer *w, cr_type type, const char *name);

/* ---- pt2_write_graph.c ---- */
void cr__write_graph(cr__pt2_writer *w, const cr_graph *g, bool main);
/* What an archive calls a value: the one that a write left behind has the name of what was written. */
const char *cr__archive_name(const cr_graph *g, uint32_t value);

/* ---- pt2_write_signature.c ---- */
void cr__write_signature(cr__pt2_writer *w);
void cr__write_calls(cr__pt2_writer *w);
void cr__write_tuple_fields(cr__pt2_writer *w);

/* ---- pt2_write_state.c ---- */
/* id: of what was written so far */
typedef struct cr__archive { cr_zip_writer *zip; const char *top; uint64_t id[2]; } cr__archive;
cr_status cr__archive_add(cr__archive *a, const void *data, size_t size, const char *format, ...) CR_PRINTF(4, 5);
cr_status cr__archive_copy(cr__archive *a, const cr_zip *zip, const cr_zip_member *m, const char *format, ...)
    CR_PRINTF(4, 5);
/* The storages of a list of tensors, each once, then the config that says which tensor is where. */
cr_status cr__write_payload(cr__pt2_writer *w, cr__archive *a, const char *folder, const char *stem, const char *config,
                            const cr_named_tensor *list, size_t n);

/* ---- pt2_write_example.c ---- */
cr_status cr__write_example(const cr_program *p, const cr_save_options *options, cr__archive *a, const char *name);

#endif
