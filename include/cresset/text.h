/* text.h: growing texts, which everything that prints appends to, and JSON written into them.
 *
 *     cr_str text;
 *     cr_str_init(&text);
 *     cr_str_addf(&text, "%d tensors", 3);
 *     if (cr_str_status(&text)) return fail(cr_error_message());
 *     puts(cr_str_get(&text));
 *     cr_str_dispose(&text);
 *
 * Errors are sticky: appends after a failed one do nothing, and cr_str_status or cr_str_take report it, so that
 * printing code needs no check a line. A text belongs to one thread at a time. */
#ifndef CRESSET_TEXT_H
#define CRESSET_TEXT_H

#include "cresset/status.h"

#include <stdarg.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Always NUL-terminated. Caller-owned: init, use, dispose; all zero is a good start, too. */
typedef struct cr_str {
    char *at; /* read through cr_str_get, which is never NULL */
    size_t n, cap;
    bool failed;
} cr_str;
CR_API void cr_str_init(cr_str *s);
CR_API void cr_str_dispose(cr_str *s);
CR_API void cr_str_add(cr_str *s, const char *text);
CR_API void cr_str_addn(cr_str *s, const char *text, size_t n);
CR_API void cr_str_addc(cr_str *s, char c);
CR_API void cr_str_addf(cr_str *s, const char *format, ...) CR_PRINTF(2, 3);
CR_API void cr_str_addv(cr_str *s, const char *format, va_list args);
/* The shortest text that reads back as the same double ("0.1", "1e-05", "inf", "nan"), with ".0" when integral:
 * Python's repr. */
CR_API void cr_str_add_double(cr_str *s, double value);
CR_API void cr_str_add_bytes(cr_str *s, uint64_t bytes); /* "438 MB", "1.2 KB", "1 byte" */
/* A quoted, escaped literal that the .crg and JSON parsers read back. */
CR_API void cr_str_add_quoted(cr_str *s, const char *text, size_t n);
CR_API const char *cr_str_get(const cr_str *s); /* never NULL; borrowed until the next change */
CR_API CR_NODISCARD cr_status cr_str_status(const cr_str *s); /* CR_ENOMEM when an append failed */
CR_API CR_NODISCARD cr_status cr_str_take(cr_str *s, char **out); /* *out: free with cr_free; s is empty after */

/* strtod as the C locale has it, whatever locale the process has set: file formats always write a point. */
CR_API double cr_strtod(const char *text, char **end);

/* To a file, which has its old contents or all of the text: CR_EIO leaves it as it was. */
CR_API CR_NODISCARD cr_status cr_str_save(const cr_str *s, const char *path);

/* Whatever takes bytes in order: a file, a socket, memory. Anything but CR_OK ends the writing with it. */
typedef struct cr_sink {
    cr_status (*write)(void *user, const void *data, size_t size);
    void *user;
} cr_sink;

/* Appends to the text. */
CR_API cr_sink cr_str_sink(cr_str *s);

/* ---- JSON: a stream of tokens; commas and indentation are put in between. Errors are the text's. ---- */
typedef struct cr_json_writer {
    cr_str *out;
    int indent, depth; /* indent 0: one line, ", " and ": " as Python writes */
    bool first, after_key;
} cr_json_writer;
CR_API void cr_json_writer_init(cr_json_writer *w, cr_str *out, int indent);
CR_API void cr_json_open(cr_json_writer *w, char bracket);  /* '{' or '[' */
CR_API void cr_json_close(cr_json_writer *w, char bracket); /* '}' or ']' */
CR_API void cr_json_key(cr_json_writer *w, const char *key);
CR_API void cr_json_string(cr_json_writer *w, const char *s, size_t n);
CR_API void cr_json_int(cr_json_writer *w, int64_t i);
CR_API void cr_json_float(cr_json_writer *w, double f); /* NaN and infinities as bare words */
CR_API void cr_json_bool(cr_json_writer *w, bool b);
CR_API void cr_json_null(cr_json_writer *w);

#ifdef __cplusplus
}
#endif
#endif
