/* meta.c: building, asking and printing metas.
 *
 * Sizes may be symbolic, so nothing here compares them but through cr_dim_known: an answer that the facts do not give
 * is CR_UNKNOWN, and callers take their general path then; only which layout strides suggest is asked at the example,
 * too. Stride products are built in the same order everywhere, so that a symbolic tensor made dense here is also
 * recognised as dense here (equal construction is the same term). */
#include "tensor/internal.h"

void cr_meta_init(cr_meta *m, int dtype, cr_device device) {
    m->dtype = (uint8_t)dtype;
    m->rank = 0;
    m->flags = 0;
    m->device = device;
    m->storage = 0;
    m->offset = 0;
}

void cr_meta_copy(cr_meta *to, const cr_meta *from) {
    memcpy(to, from, offsetof(cr_meta, size));
    for (int i = 0; i < from->rank; i++) { /* few: memcpy of so little costs more than this */
        to->size[i] = from->size[i];
        to->stride[i] = from->stride[i];
    }
}

cr_dim cr_meta_numel(cr_env *env, const cr_meta *m) {
    cr_dim n = 1;
    for (int i = 0; i < m->rank; i++) {
        if (m->size[i] == 0) return 0; /* a plain zero wins over an overflow among the others */
        n = cr_dim_mul(env, n, m->size[i]);
    }
    return n;
}

/* max(size, 1) without making a term where the facts already give size >= 1. */
static cr_dim at_least_one(cr_env *env, cr_dim size) {
    if (cr_dim_is_plain(size)) return size > 1 ? size : 1;
    return cr_dim_known(env, size, CR_GE, 1) == CR_YES ? size : cr_dim_max(env, size, 1);
}

void cr_strides_contiguous(cr_env *env, int rank, const cr_dim *size, cr_dim *stride) {
    cr_dim next = 1;
    for (int i = rank - 1; i >= 0; i--) {
        stride[i] = next;
        if (i) next = cr_dim_mul(env, next, at_least_one(env, size[i]));
    }
}

void cr_strides_permuted(cr_env *env, int rank, const cr_dim *size, const int *order, cr_dim *stride) {
    cr_dim next = 1;
    for (int i = rank - 1; i >= 0; i--) {
        stride[order[i]] = next;
        if (i) next = cr_dim_mul(env, next, size[order[i]]);
    }
}

/* Dimensions from outermost to innermost. */
static const int channels_last_order[2][5] = { { 0, 2, 3, 1 }, { 0, 2, 3, 4, 1 } };

static cr_status check_sizes(cr_env *env, int rank, const cr_dim *size, int64_t itemsize) {
    if (rank > CR_MAX_RANK)
        return CR_FAIL(CR_ERUNTIME, "a tensor has at most %d dimensions, not %d", CR_MAX_RANK, rank);
    cr_dim bytes = itemsize;
    for (int i = 0; i < rank; i++) {
        if (cr_dim_known(env, size[i], CR_LT, 0) == CR_YES || size[i] == CR_DIM_OVERFLOW) {
            cr_str shape;
            cr_str_init(&shape);
            cr_shape_print(env, rank, size, &shape);
            cr_status s = CR_FAIL(CR_ERUNTIME, "size %d of shape %s is %s; sizes are 0 or more", i, cr_str_get(&shape),
                                  size[i] == CR_DIM_OVERFLOW ? "beyond 64 bits" : "negative");
            cr_str_dispose(&shape);
            return s;
        }
        if (!cr_dim_is_plain(size[i])) continue;
        bytes = cr_dim_mul(NULL, bytes, CR_MAX(size[i], 1)); /* kernels multiply sizes, also those beside a zero */
    }
    if (bytes != CR_DIM_OVERFLOW) return CR_OK;
    cr_str shape;
    cr_str_init(&shape);
    cr_shape_print(env, rank, size, &shape);
    cr_status s = CR_FAIL(CR_ERUNTIME, "a tensor of shape %s needs more bytes than can be addressed",
                          cr_str_get(&shape));
    cr_str_dispose(&shape);
    return s;
}

cr_status cr_meta_set_dense(cr_env *env, cr_meta *m, int rank, const cr_dim *size, cr_memory_format format) {
    CR_TRY(check_sizes(env, rank, size, rt_itemsize(m->dtype)));
    if (format == CR_CHANNELS_LAST || format == CR_CHANNELS_LAST_3D) {
        int want = format == CR_CHANNELS_LAST ? 4 : 5;
        if (rank != want)
            return CR_FAIL(CR_ERUNTIME, "memory format %s needs %d dimensions, the shape has %d",
                           want == 4 ? "channels_last" : "channels_last_3d", want, rank);
    }
    if (rank && size != m->size) memcpy(m->size, size, (size_t)rank * sizeof(cr_dim));
    m->rank = (uint8_t)rank;
    m->offset = 0;
    if (format == CR_CHANNELS_LAST || format == CR_CHANNELS_LAST_3D)
        cr_strides_permuted(env, rank, m->size, channels_last_order[format == CR_CHANNELS_LAST_3D], m->stride);
    else
        cr_strides_contiguous(env, rank, m->size, m->stride);
    return CR_OK;
}

cr_status cr_meta_dense(int dtype, int rank, const int64_t *size, cr_meta *out) {
    if (dtype < 0 || dtype >= CR_DTYPE_COUNT) return CR_FAIL(CR_ETYPE, "there is no dtype of number %d", dtype);
    if (rank < 0 || rank > CR_MAX_RANK)
        return CR_FAIL(CR_ERUNTIME, "a tensor has 0 to %d dimensions, not %d", CR_MAX_RANK, rank);
    for (int i = 0; i < rank; i++)
        if (size[i] < 0) return CR_FAIL(CR_ERUNTIME, "size %d of the tensor is %lld", i, (long long)size[i]);
    cr_meta_init(out, dtype, (cr_device){ CR_CPU, -1 });
    return cr_meta_set_dense(NULL, out, rank, size, CR_CONTIGUOUS);
}

/* Is the stride the running product of sizes, or that product with empty dimensions counted as 1 (as row-major strides
 * are made)? They differ only where the tensor may be empty, and then either will do. */
static cr_tri fits_product(cr_env *env, cr_dim stride, cr_dim product, cr_dim clamped) {
    cr_tri fits = cr_dim_known(env, stride, CR_EQ, product);
    return fits == CR_UNKNOWN && cr_dim_known(env, stride, CR_EQ, clamped) == CR_YES ? CR_YES : fits;
}

/* Do the strides, innermost first in `order`, equal the running product of sizes wherever the size is not 1? */
static cr_tri is_dense_in(cr_env *env, const cr_meta *m, const int *order) {
    cr_dim expected = 1, clamped = 1;
    cr_tri answer = CR_YES;
    for (int k = m->rank - 1; k >= 0; k--) {
        int i = order ? order[k] : k;
        cr_tri one = cr_dim_known(env, m->size[i], CR_EQ, 1);
        if (one == CR_YES) continue;
        cr_tri fits = fits_product(env, m->stride[i], expected, order ? expected : clamped);
        if (fits != CR_YES) {
            if (one == CR_NO && fits == CR_NO) return CR_NO;
            answer = CR_UNKNOWN;
        }
        if (!k) break;
        expected = cr_dim_mul(env, expected, m->size[i]);
        clamped = cr_dim_is_plain(expected) ? expected : cr_dim_mul(env, clamped, at_least_one(env, m->size[i]));
    }
    return answer;
}

static cr_tri is_empty(cr_env *env, const cr_meta *m) {
    cr_tri answer = CR_NO;
    for (int i = 0; i < m->rank; i++) {
        cr_tri zero = cr_dim_known(env, m->size[i], CR_EQ, 0);
        if (zero == CR_YES) return CR_YES;
        if (zero == CR_UNKNOWN) answer = CR_UNKNOWN;
    }
    return answer;
}

/* Most are asked this several times a call, and have plain sizes: false says nothing. */
static bool is_plainly_contiguous(const cr_meta *m) {
    int64_t expected = 1;
    for (int i = m->rank - 1; i >= 0; i--) {
        cr_dim size = m->size[i];
        if (size == 1) continue;
        if (!cr_dim_is_plain(size) || size < 1 || m->stride[i] != expected) return false;
        if (cr_mul_overflow(expected, size, &expected)) return false;
    }
    return true;
}

cr_tri cr_meta_is_contiguous(cr_env *env, const cr_meta *m, cr_memory_format format) {
    if (format == CR_CHANNELS_LAST || format == CR_CHANNELS_LAST_3D) {
        if (m->rank != (format == CR_CHANNELS_LAST ? 4 : 5)) return CR_NO;
        return is_dense_in(env, m, channels_last_order[format == CR_CHANNELS_LAST_3D]);
    }
    if (is_plainly_contiguous(m)) return CR_YES;
    cr_tri dense = is_dense_in(env, m, NULL);
    if (dense == CR_YES) return CR_YES;
    cr_tri empty = is_empty(env, m);
    return empty == CR_YES ? CR_YES : empty == CR_UNKNOWN ? CR_UNKNOWN : dense;
}

cr_status cr_meta_assume_large(cr_env *env, const cr_meta *m, cr_tri known) {
    if (known != CR_UNKNOWN || !cr_env_is_exact(env)) return CR_OK;
    for (int d = 0; d < m->rank; d++) {
        int64_t hint;
        bool yes;
        if (cr_dim_is_plain(m->size[d]) || cr_dim_hint(env, m->size[d], &hint)) continue;
        CR_TRY(cr_dim_assume(env, m->size[d], CR_GE, 2, true, &yes));
    }
    return CR_OK;
}

/* Peels the dimensions off by looking, each time, for one whose stride is the product so far: in a dense tensor there
 * is exactly one (size-1 dimensions apart), so no sorting of strides that may not be comparable is needed. `order`:
 * what was found, innermost last. */
static cr_tri peel(cr_env *env, const cr_meta *m, bool unknown, int *order) {
    cr_dim expected = 1, clamped = 1;
    uint32_t left = 0;
    int ones = 0, place = m->rank;
    for (int i = 0; i < m->rank; i++) {
        if (cr_dim_known(env, m->size[i], CR_EQ, 1) != CR_YES) left |= 1u << i;
        else order[ones++] = i;
    }
    while (left) {
        int found = -1;
        for (int i = m->rank - 1; i >= 0 && found < 0; i--) {
            if (!(left >> i & 1)) continue;
            cr_tri fits = fits_product(env, m->stride[i], expected, clamped);
            if (fits == CR_YES) found = i;
            else if (fits == CR_UNKNOWN || cr_dim_known(env, m->size[i], CR_EQ, 1) == CR_UNKNOWN) unknown = true;
        }
        if (found < 0) return unknown ? CR_UNKNOWN : CR_NO;
        left &= ~(1u << found);
        order[--place] = found;
        if (!left) break;
        expected = cr_dim_mul(env, expected, m->size[found]);
        clamped = cr_dim_is_plain(expected) ? expected : cr_dim_mul(env, clamped, at_least_one(env, m->size[found]));
    }
    return CR_YES;
}

cr_tri cr_meta_is_dense(cr_env *env, const cr_meta *m) {
    int order[CR_MAX_RANK];
    cr_tri contiguous = cr_meta_is_contiguous(env, m, CR_CONTIGUOUS);
    if (contiguous == CR_YES || m->rank < 2) return contiguous;
    return peel(env, m, contiguous == CR_UNKNOWN, order);
}

bool cr_meta_find_order(cr_env *env, const cr_meta *m, int *order) { return peel(env, m, false, order) == CR_YES; }

cr_tri cr__dim_likely(cr_env *env, cr_dim a, cr_cmp cmp, cr_dim b) {
    cr_tri known = cr_dim_known(env, a, cmp, b);
    int64_t x, y;
    if (known != CR_UNKNOWN || !cr_dim_hint(env, a, &x) || !cr_dim_hint(env, b, &y)) return known;
    return cr_dim_known(NULL, x, cmp, y);
}

/* Are the strides those of channels-last, up to gaps? Size-1 dimensions count by their strides, so that a contiguous
 * N1HW or NC11 tensor is not taken for one. An empty tensor is none either. */
static bool looks_channels_last(cr_env *env, const cr_meta *m, const int *order) {
    if (cr__dim_likely(env, m->stride[1], CR_NE, 0) != CR_YES) return false;
    cr_dim least = 0;
    for (int k = m->rank - 1; k >= 0; k--) {
        int i = order[k];
        if (cr__dim_likely(env, m->size[i], CR_NE, 0) == CR_NO) return false;
        if (cr__dim_likely(env, m->stride[i], CR_GE, least) != CR_YES) return false;
        if (i == 0 && cr__dim_likely(env, least, CR_NE, m->stride[1]) != CR_YES) return false;
        least = cr_dim_mul(env, m->stride[i], m->size[i]);
    }
    return true;
}

cr_memory_format cr_meta_suggest_format(cr_env *env, const cr_meta *m) {
    if (m->rank == 4 && looks_channels_last(env, m, channels_last_order[0])) return CR_CHANNELS_LAST;
    if (m->rank == 5 && looks_channels_last(env, m, channels_last_order[1])) return CR_CHANNELS_LAST_3D;
    return CR_CONTIGUOUS;
}

static bool same_dims(cr_env *env, int n, const cr_dim *a, const cr_dim *b) {
    for (int i = 0; i < n; i++)
        if (cr_dim_known(env, a[i], CR_EQ, b[i]) != CR_YES) return false;
    return true;
}

bool cr_meta_equal(cr_env *env, const cr_meta *a, const cr_meta *b) {
    return a->dtype == b->dtype && a->rank == b->rank && a->device.type == b->device.type &&
           a->device.index == b->device.index && same_dims(env, a->rank, a->size, b->size) &&
           same_dims(env, a->rank, a->stride, b->stride) && same_dims(env, 1, &a->offset, &b->offset);
}

static void dims_print(cr_env *env, int n, const cr_dim *dims, cr_str *out) {
    for (int i = 0; i < n; i++) {
        if (i) cr_str_add(out, ", ");
        cr_dim_print(env, dims[i], out);
    }
}

void cr_shape_print(cr_env *env, int rank, const cr_dim *size, cr_str *out) {
    cr_str_addc(out, '[');
    dims_print(env, rank, size, out);
    cr_str_addc(out, ']');
}

void cr_meta_print(cr_env *env, const cr_meta *m, cr_str *out) {
    cr_str_add(out, cr_dtype_short(m->dtype));
    cr_shape_print(env, m->rank, m->size, out);
    cr_str_addc(out, '(');
    dims_print(env, m->rank, m->stride, out);
    cr_str_add(out, ")");
    if (cr_dim_known(env, m->offset, CR_EQ, 0) != CR_YES) {
        cr_str_addc(out, '+');
        cr_dim_print(env, m->offset, out);
    }
    cr_str_addc(out, '@');
    cr_device_print(m->device, out);
}

/* Kernels multiply sizes, strides and the element's bytes with each other, whether or not there are elements: all of
 * these products fit in 64 bits, or the tensor is refused. */
cr_status cr_meta_bytes(const cr_meta *m, int64_t *out) {
    int64_t last = 0, reach = 1, count = rt_itemsize(m->dtype), item = count, span;
    bool overflow = !cr_dim_is_plain(m->offset), symbolic = overflow && m->offset != CR_DIM_OVERFLOW, empty = false;
    for (int i = 0; i < m->rank; i++) {
        cr_dim size = m->size[i], stride = m->stride[i];
        if (size == 0) empty = true;
        bool plain = cr_dim_is_plain(size) && cr_dim_is_plain(stride);
        symbolic |= !plain && size != CR_DIM_OVERFLOW && stride != CR_DIM_OVERFLOW;
        overflow |= !plain;
        if (!plain) continue;
        if (size < 0) return CR_FAIL(CR_ERUNTIME, "size %d is %lld; sizes are 0 or more", i, (long long)size);
        if (stride < 0) return CR_FAIL(CR_ERUNTIME, "stride %d is %lld; strides are 0 or more", i, (long long)stride);
        size = CR_MAX(size, 1);
        overflow |= cr_mul_overflow(size, stride, &span) || cr_add_overflow(reach, span, &reach);
        overflow |= cr_mul_overflow(count, size, &count);
        if (!overflow) last += span - stride;
    }
    if (symbolic) return CR_FAIL(CR_EVALUE, "a tensor with symbolic sizes has no number of bytes");
    if (m->offset < 0 && !overflow)
        return CR_FAIL(CR_ERUNTIME, "storage offset %lld is negative", (long long)m->offset);
    if (overflow || cr_add_overflow(reach, m->offset, &reach) || cr_mul_overflow(reach, item, &reach)) {
        cr_str shape;
        cr_str_init(&shape);
        for (int i = 0; i < m->rank; i++) {
            if (i) cr_str_add(&shape, ", ");
            if (cr_dim_is_plain(m->size[i])) cr_str_addf(&shape, "%lld", (long long)m->size[i]);
            else cr_str_add(&shape, "overflow");
        }
        cr_status s = CR_FAIL(CR_ERUNTIME, "a tensor of shape [%s] needs more bytes than can be addressed",
                              cr_str_get(&shape));
        cr_str_dispose(&shape);
        return s;
    }
    *out = empty ? 0 : (m->offset + last + 1) * item; /* at most the reach */
    return CR_OK;
}
