/* Growing text. Always NUL-terminated once anything was added; a failed append makes all later ones do nothing, so
 * that printing code is checked once, at its end. */
#include "base/grow.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

void cr_str_init(cr_str *s) { *s = (cr_str){0}; }

void cr_str_dispose(cr_str *s) {
    cr_free(s->at);
    *s = (cr_str){0};
}

/* Room for n more bytes and the NUL. */
static bool reserve(cr_str *s, size_t n) {
    if (s->failed) return false;
    if (n < s->cap - s->n) return true; /* cap is 0 or > n: no wrap */
    size_t want = s->n + n + 1;
    size_t cap = cr_grown(s->cap, want, CR_LIMIT(32, 1));
    char *at = n > PTRDIFF_MAX / 2 ? NULL : cr_realloc(s->at, cap);
    if (!at) {
        s->failed = true;
        return false;
    }
    s->at = at;
    s->cap = cap;
    return true;
}

void cr_str_addn(cr_str *s, const char *text, size_t n) {
    if (!reserve(s, n)) return;
    if (n) memcpy(s->at + s->n, text, n);
    s->n += n;
    s->at[s->n] = 0;
}

void cr_str_add(cr_str *s, const char *text) { cr_str_addn(s, text, strlen(text)); }

void cr_str_addc(cr_str *s, char c) { cr_str_addn(s, &c, 1); }

void cr_str_addv(cr_str *s, const char *format, va_list args) {
    va_list again;
    va_copy(again, args);
    int length = vsnprintf(NULL, 0, format, args);
    if (length >= 0 && reserve(s, (size_t)length)) {
        vsnprintf(s->at + s->n, (size_t)length + 1, format, again);
        s->n += (size_t)length;
    }
    va_end(again);
}

void cr_str_addf(cr_str *s, const char *format, ...) {
    va_list args;
    va_start(args, format);
    cr_str_addv(s, format, args);
    va_end(args);
}

/* A decimal 0.d1d2d3... * 10^point. */
typedef struct { char digits[24]; int n, point; } decimal;

static decimal decimal_of(double value, int precision) {
    char text[40];
    decimal d = {.n = 0};
    snprintf(text, sizeof text, "%.*e", precision - 1, value);
    const char *p = text;
    for (; *p && *p != 'e'; p++)
        if (*p >= '0' && *p <= '9') d.digits[d.n++] = *p; /* skips the decimal point, whatever the locale calls it */
    d.point = *p ? atoi(p + 1) + 1 : 1;
    return d;
}

static double decimal_value(const decimal *d) {
    char text[48];
    snprintf(text, sizeof text, "%.*se%d", d->n, d->digits, d->point - d->n); /* no decimal point: no locale */
    return strtod(text, NULL);
}

static void decimal_next(decimal *d) {
    int i = d->n - 1;
    while (i >= 0 && d->digits[i] == '9') d->digits[i--] = '0';
    if (i >= 0) {
        d->digits[i]++;
    } else {
        d->digits[0] = '1';
        d->point++;
    }
}

/* The shortest decimal that reads back as `value` (positive, finite). For normal numbers 15 digits that read back
 * are the shortest after their zeros are cut; subnormals have fewer significant digits and start at one. */
static decimal decimal_shortest(double value) {
    int exponent;
    bool power_of_two = frexp(value, &exponent) == 0.5;
    decimal d = {.n = 0};
    for (int precision = value < DBL_MIN ? 1 : 15; precision <= 17; precision++) {
        d = decimal_of(value, precision);
        if (decimal_value(&d) == value) break;
        /* Above a power of two doubles lie twice as far apart as below it: the nearest decimal may miss below
         * where the next one, further away, hits above. */
        if (!power_of_two) continue;
        decimal_next(&d);
        if (decimal_value(&d) == value) break;
    }
    while (d.n > 1 && d.digits[d.n - 1] == '0') d.n--;
    return d;
}

void cr_str_add_double(cr_str *s, double value) {
    if (isnan(value)) {
        cr_str_add(s, "nan");
        return;
    }
    if (signbit(value)) cr_str_addc(s, '-');
    value = fabs(value);
    if (isinf(value) || value == 0) {
        cr_str_add(s, value == 0 ? "0.0" : "inf");
        return;
    }
    decimal d = decimal_shortest(value);
    if (d.point > 16 || d.point < -3) {
        cr_str_addc(s, d.digits[0]);
        if (d.n > 1) cr_str_addf(s, ".%.*s", d.n - 1, d.digits + 1);
        cr_str_addf(s, "e%c%02d", d.point - 1 < 0 ? '-' : '+', abs(d.point - 1));
    } else if (d.point <= 0) {
        cr_str_addf(s, "0.%.*s%.*s", -d.point, "000", d.n, d.digits);
    } else if (d.point >= d.n) {
        cr_str_addf(s, "%.*s%.*s.0", d.n, d.digits, d.point - d.n, "0000000000000000");
    } else {
        cr_str_addf(s, "%.*s.%.*s", d.point, d.digits, d.n - d.point, d.digits + d.point);
    }
}

/* JSON's escapes; bytes from 0x80 up pass through, so UTF-8 stays readable. */
void cr_str_add_quoted(cr_str *s, const char *text, size_t n) {
    static const char escapes[] = "\"\"\\\\\nn\tt\rr\bb\ff"; /* pairs: byte, letter */
    cr_str_addc(s, '"');
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)text[i];
        const char *pair = escapes;
        while (*pair && (unsigned char)*pair != c) pair += 2;
        if (*pair) {
            cr_str_addc(s, '\\');
            cr_str_addc(s, pair[1]);
        } else if (c < 0x20) {
            cr_str_addf(s, "\\u%04x", c);
        } else {
            cr_str_addc(s, (char)c);
        }
    }
    cr_str_addc(s, '"');
}

const char *cr_str_get(const cr_str *s) { return s->at ? s->at : ""; }

cr_status cr_str_status(const cr_str *s) {
    return s->failed ? CR_FAIL(CR_ENOMEM, "text") : CR_OK;
}

cr_status cr_str_take(cr_str *s, char **out) {
    cr_str_addn(s, "", 0); /* an empty text is a text too */
    if (s->failed) {
        cr_str_dispose(s);
        return CR_FAIL(CR_ENOMEM, "text");
    }
    *out = s->at;
    *s = (cr_str){0};
    return CR_OK;
}

void cr_str_add_bytes(cr_str *out, uint64_t bytes) {
    static const char *const units[] = { "bytes", "KB", "MB", "GB", "TB", "PB", "EB" };
    double value = (double)bytes;
    size_t unit = 0;
    while (value >= 999.5 && unit + 1 < CR_COUNT(units)) value /= 1000, unit++;
    if (unit == 0) cr_str_addf(out, bytes == 1 ? "1 byte" : "%llu bytes", (unsigned long long)bytes);
    else cr_str_addf(out, value < 9.95 ? "%.1f %s" : "%.0f %s", value, units[unit]);
}

static cr_status append(void *user, const void *data, size_t size) {
    cr_str_addn(user, data, size);
    return cr_str_status(user);
}

cr_sink cr_str_sink(cr_str *s) { return (cr_sink){ append, s }; }
