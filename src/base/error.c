/* The calling thread's last failure.
 *
 * One thread-local pointer to a heap record that can be moved out (cr_error_take) and into another thread
 * (cr_error_put). Out of memory is one static record, so reporting it never allocates; when the record of another
 * failure cannot be allocated, that failure *becomes* out of memory, and the returned code says so: the code a
 * function returns and the code of the last error always agree. */
#include "base/base.h"
#include "base/internal.h"
#include "base/utf8.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>

struct cr_error {
    cr_status code;
    int system;        /* errno, or 0 */
    const char *where; /* a string literal of the raising file */
    char message[];
};

/* A flexible array member cannot be initialised portably, so the text of the static record is kept beside it. */
static cr_error out_of_memory = {CR_ENOMEM, 0, "", {}};
static const char out_of_memory_text[] = "out of memory";

static _Thread_local cr_error *last;
static pthread_key_t exit_key; /* frees the record of a thread that ends */
static pthread_once_t exit_once = PTHREAD_ONCE_INIT;
static bool exit_key_made;

static void record_free(cr_error *error) {
    if (error != &out_of_memory) cr_free(error);
}

static void thread_exit(void *unused) {
    (void)unused;
    record_free(last);
    last = NULL;
}

static void exit_key_make(void) { exit_key_made = pthread_key_create(&exit_key, thread_exit) == 0; }

static void last_replace(cr_error *error) {
    record_free(last);
    last = error;
    if (!error || error == &out_of_memory) return;
    pthread_once(&exit_once, exit_key_make);
    if (exit_key_made) pthread_setspecific(exit_key, &last);
}

cr_status cr_error_code(void) { return last ? last->code : CR_OK; }

static const char *message_of(const cr_error *error) {
    return error == &out_of_memory ? out_of_memory_text : error->message;
}

const char *cr_error_message(void) { return last ? message_of(last) : "no error"; }

int cr_error_system(void) { return last ? last->system : 0; }

const char *cr_error_where(void) { return last ? last->where : ""; }

const char *cr_status_name(cr_status code) {
    static const char *const names[CR_STATUS_COUNT] = {
        [CR_OK] = "CR_OK",
        [CR_ENOMEM] = "CR_ENOMEM",
        [CR_EVALUE] = "CR_EVALUE",
        [CR_ETYPE] = "CR_ETYPE",
        [CR_EINDEX] = "CR_EINDEX",
        [CR_ERUNTIME] = "CR_ERUNTIME",
        [CR_ENOTIMPL] = "CR_ENOTIMPL",
        [CR_EOVERFLOW] = "CR_EOVERFLOW",
        [CR_EDATADEP] = "CR_EDATADEP",
        [CR_EUNSUPPORTED] = "CR_EUNSUPPORTED",
        [CR_EGUARD] = "CR_EGUARD",
        [CR_EFORMAT] = "CR_EFORMAT",
        [CR_EIO] = "CR_EIO",
        [CR_ENOTFOUND] = "CR_ENOTFOUND",
        [CR_ETOOLCHAIN] = "CR_ETOOLCHAIN",
        [CR_EPYTHON] = "CR_EPYTHON",
    };
    return (unsigned)code < CR_STATUS_COUNT ? names[code] : "unknown status";
}

cr_error *cr_error_take(void) {
    cr_error *error = last;
    last = NULL;
    return error == &out_of_memory ? NULL : error;
}

cr_status cr_error_put(cr_error *error) {
    last_replace(error ? error : &out_of_memory);
    return last->code;
}

void cr_error_release(cr_error *error) { record_free(error); }

void cr__error_out_of_memory(void) { last_replace(&out_of_memory); }

/* Messages quote names and texts of files: what is no text, or would steer a terminal, becomes '?'. */
static void make_printable(char *text) {
    uint8_t *p = (uint8_t *)text, *end = p + strlen(text);
    while (p < end) {
        size_t step = cr__utf8_step(p, end);
        if (!step || (*p < 0x20 && *p != '\n' && *p != '\t') || *p == 0x7f) *p = '?';
        p += step ? step : 1;
    }
}

/* "prefix" + text, in a new record; NULL when memory ran out. The arguments may point into the last message. */
static cr_error *record_new(cr_status code, const char *where, const char *tail, const char *format, va_list args) {
    va_list again;
    va_copy(again, args);
    int length = vsnprintf(NULL, 0, format, again);
    va_end(again);
    if (length < 0) length = 0;
    size_t tail_length = tail ? strlen(tail) + 2 : 0;
    cr_error *error = cr__alloc_quiet(sizeof *error + (size_t)length + tail_length + 1);
    if (!error) return NULL;
    error->code = code;
    error->system = 0;
    error->where = where ? where : "";
    error->message[0] = 0;
    vsnprintf(error->message, (size_t)length + 1, format, args);
    make_printable(error->message);
    if (tail) {
        memcpy(error->message + length, ": ", 2);
        memcpy(error->message + length + 2, tail, tail_length - 1);
    }
    return error;
}

cr_status cr_error_set(cr_status code, const char *where, const char *format, ...) {
    cr_error *error = NULL;
    if (code != CR_ENOMEM) {
        va_list args;
        va_start(args, format);
        error = record_new(code, where, NULL, format, args);
        va_end(args);
    }
    return cr_error_put(error);
}

cr_status cr_error_set_system(int number, const char *where, const char *format, ...) {
    cr_error *error = NULL;
    if (number != ENOMEM) {
        va_list args;
        va_start(args, format);
        error = record_new(CR_EIO, where, NULL, format, args);
        va_end(args);
        if (error) error->system = number;
    }
    return cr_error_put(error);
}

cr_status cr_error_context(cr_status code, const char *format, ...) {
    if (code == CR_OK || code == CR_ENOMEM) return code;
    va_list args;
    va_start(args, format);
    cr_error *error = record_new(code, last ? last->where : "", last ? message_of(last) : NULL, format, args);
    va_end(args);
    /* Without memory for the longer text the shorter one is kept: the cause matters more than its context. */
    if (error) {
        error->system = last ? last->system : 0;
        last_replace(error);
    }
    else if (!last || last->code != code) return cr_error_put(NULL);
    return code;
}
