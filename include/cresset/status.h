/* status.h: how every fallible function reports.
 *
 * A function that can fail returns a cr_status. CR_OK is zero; anything else names the class of the
 * failure, and the message waits in the calling thread's last error until the next failure there.
 *
 *     cr_program *program;
 *     cr_status status = cr_program_load("missing.pt2", NULL, 0, &program);
 *     if (status) fprintf(stderr, "%s: %s\n", cr_status_name(status), cr_error_message());
 *     if (status == CR_EIO && cr_error_system() == ENOENT) fprintf(stderr, "there is no such file\n");
 *
 * Out-parameters come last and are written only on success. A pointer that is returned is borrowed;
 * one that comes through `T **out` is owned by the caller. Thread-safe: the last error is per thread. */
#ifndef CRESSET_STATUS_H
#define CRESSET_STATUS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define CR_NODISCARD __attribute__((warn_unused_result))
#define CR_PRINTF(fmt, first) __attribute__((format(printf, fmt, first)))
#else
#define CR_NODISCARD
#define CR_PRINTF(fmt, first)
#endif
#define CR_API __attribute__((visibility("default")))

/* Each code is worth a caller's `if`; the comment names the Python exception it becomes. */
typedef enum cr_status {
    CR_OK = 0,
    CR_ENOMEM,       /* MemoryError; the message is static text */
    CR_EVALUE,       /* ValueError */
    CR_ETYPE,        /* TypeError */
    CR_EINDEX,       /* IndexError */
    CR_ERUNTIME,     /* RuntimeError: what PyTorch's checks raise for shapes, dtypes and devices */
    CR_ENOTIMPL,     /* NotImplementedError: a dtype or op that has no kernel */
    CR_EOVERFLOW,    /* OverflowError: a number does not fit */
    CR_EDATADEP,     /* the answer depends on tensor data that a fake run does not have */
    CR_EUNSUPPORTED, /* not supported here; capture turns it into a graph break */
    CR_EGUARD,       /* a guard did not hold */
    CR_EFORMAT,      /* malformed text or file; the message has line and column, or member and field */
    CR_EIO,          /* OSError */
    CR_ENOTFOUND,    /* KeyError, or AttributeError for an op name */
    CR_ETOOLCHAIN,   /* the C compiler is missing or failed */
    CR_EPYTHON,      /* a Python exception is set already */
    CR_STATUS_COUNT
} cr_status;

/* The calling thread's last failure. The message is never NULL; it is valid until the next failure. */
CR_API cr_status cr_error_code(void);
CR_API const char *cr_error_message(void);
/* The system's error number (errno) when a call of the system failed, else 0: ENOENT tells a missing file from
 * others. */
CR_API int cr_error_system(void);
/* `file:line` where it was raised, for debugging; "" when unknown. */
CR_API const char *cr_error_where(void);
/* The code's name, such as "CR_EINDEX". */
CR_API const char *cr_status_name(cr_status code);

/* A failure taken out of the thread, to be kept in a report or moved to another thread. */
typedef struct cr_error cr_error;
/* Takes the calling thread's last error; NULL when there is none (or it was out of memory). */
CR_API cr_error *cr_error_take(void);
/* Makes `error` (consumed; NULL means out of memory) the calling thread's last error and returns its code. */
CR_API cr_status cr_error_put(cr_error *error);
CR_API void cr_error_release(cr_error *error);

/* Records a failure of the calling thread and returns `code`. Use CR_FAIL, which adds file and line. */
CR_API cr_status cr_error_set(cr_status code, const char *where, const char *format, ...) CR_PRINTF(3, 4);
/* The same for a failed call of the system: CR_EIO with its error number, out of memory for ENOMEM. */
CR_API cr_status cr_error_set_system(int number, const char *where, const char *format, ...) CR_PRINTF(3, 4);
/* Puts "context: " before the message on its way up; returns `code` so that it can be chained. */
CR_API cr_status cr_error_context(cr_status code, const char *format, ...) CR_PRINTF(2, 3);

#define CR__STR2(x) #x
#define CR__STR(x) CR__STR2(x)
#define CR_WHERE __FILE__ ":" CR__STR(__LINE__)
#define CR_FAIL(code, ...) cr_error_set((code), CR_WHERE, __VA_ARGS__)
#define CR_FAIL_SYSTEM(number, ...) cr_error_set_system((number), CR_WHERE, __VA_ARGS__)
#define CR_TRY(expr)                                                                                                   \
    do {                                                                                                               \
        cr_status cr__status = (expr);                                                                                 \
        if (cr__status) return cr__status;                                                                             \
    } while (0)
/* As CR_TRY, for functions with something to undo: sets `status` and jumps to `out`. */
#define CR_TRY_OUT(expr)                                                                                               \
    do {                                                                                                               \
        status = (expr);                                                                                               \
        if (status) goto out;                                                                                          \
    } while (0)

#ifdef __cplusplus
}
#endif
#endif
