/* gemm_pack.c: matrices of any strides and dtype into dense rows of the compute type.
 *
 * Both sides of a product need the same thing: a block of A as dense rows, and 16 columns of B as dense rows of 64
 * bytes (a panel). Native elements go straight there, by rows or by a tiled transpose. Others are converted first,
 * along the direction they lie in memory, into a small block that is then moved as native ones are. */
#include "runtime/gemm_isa.h"
#include "runtime/gemm_transpose.h"

#include <string.h>

enum { BLOCK_ROWS = 64, BLOCK_COLS = 64, PANELS = 8 /* that are filled together */ };

typedef uint64_t u64x2 __attribute__((vector_size(16), aligned(8), may_alias));

/* Where B's rows or columns are a page apart no prefetcher follows them: what is read some steps later is asked for
 * now. A prefetch beyond the end does nothing. */
enum { LINE = 16, AHEAD_LINES = 6, AHEAD_ROWS = 8 }; /* LINE: numbers of four bytes */

/* 16 columns that are dense along k, a cache line of each at a time. */
static void transpose_panel(uint32_t *out, const uint32_t *x, int64_t x_col, int64_t rows) {
    for (int64_t i = 0; i + LINE <= rows; i += LINE) {
        for (int64_t j = 0; j < LINE; j += 4) {
            const uint32_t *from = x + i + j * x_col;
            for (int q = 0; q < 4; q++) __builtin_prefetch(from + q * x_col + AHEAD_LINES * LINE);
            for (int q = 0; q < LINE; q += 4)
                transpose4(out + (i + q) * LINE + j, LINE, from + q, from + q + x_col, from + q + 2 * x_col,
                           from + q + 3 * x_col);
        }
    }
}

/* Rows of B, `panels` lines of each at a time, into as many panels. */
static void copy_panels(uint32_t *out, int64_t panel, const uint32_t *x, int64_t x_row, int64_t rows, int64_t panels) {
    for (int64_t i = 0; i < rows; i++, x += x_row, out += LINE) {
        for (int64_t p = 0; p < panels; p++) {
            const uint32_t *from = x + p * LINE;
            __builtin_prefetch(from + AHEAD_ROWS * x_row);
            for (int q = 0; q < LINE; q += 4) *(u32x4 *)(out + p * panel + q) = *(const u32x4 *)(from + q);
        }
    }
}

static void move4(uint32_t *out, int64_t row, const uint32_t *x, int64_t x_row, int64_t x_col, int64_t rows,
                  int64_t cols) {
    int64_t i = 0;
    if (x_col == 1) {
        if (cols == 16)
            for (; i < rows; i++)
                for (int q = 0; q < 16; q += 4) *(u32x4 *)(out + i * row + q) = *(const u32x4 *)(x + i * x_row + q);
        for (; i < rows; i++) memcpy(out + i * row, x + i * x_row, (size_t)cols * 4);
        return;
    }
    if (x_row == 1) {
        if (row == LINE && cols == LINE) {
            transpose_panel(out, x, x_col, rows);
            i = rows / LINE * LINE;
        }
        for (; i + 4 <= rows; i += 4) {
            int64_t j = 0;
            for (; j + 4 <= cols; j += 4) {
                const uint32_t *from = x + i + j * x_col;
                transpose4(out + i * row + j, row, from, from + x_col, from + 2 * x_col, from + 3 * x_col);
            }
            for (; j < cols; j++)
                for (int64_t r = i; r < i + 4; r++) out[r * row + j] = x[r + j * x_col];
        }
    }
    for (; i < rows; i++)
        for (int64_t j = 0; j < cols; j++) out[i * row + j] = x[i * x_row + j * x_col];
}

static void move8(uint64_t *out, int64_t row, const uint64_t *x, int64_t x_row, int64_t x_col, int64_t rows,
                  int64_t cols) {
    int64_t i = 0;
    if (x_col == 1) {
        if (cols == 8)
            for (; i < rows; i++)
                for (int q = 0; q < 8; q += 2) *(u64x2 *)(out + i * row + q) = *(const u64x2 *)(x + i * x_row + q);
        for (; i < rows; i++) memcpy(out + i * row, x + i * x_row, (size_t)cols * 8);
        return;
    }
    if (x_row == 1) {
        for (; i + 2 <= rows; i += 2) {
            int64_t j = 0;
            for (; j + 2 <= cols; j += 2) {
                u64x2 a = *(const u64x2 *)(x + i + j * x_col), b = *(const u64x2 *)(x + i + (j + 1) * x_col);
                *(u64x2 *)(out + i * row + j) = (u64x2){ a[0], b[0] };
                *(u64x2 *)(out + (i + 1) * row + j) = (u64x2){ a[1], b[1] };
            }
            for (; j < cols; j++)
                for (int64_t r = i; r < i + 2; r++) out[r * row + j] = x[r + j * x_col];
        }
    }
    for (; i < rows; i++)
        for (int64_t j = 0; j < cols; j++) out[i * row + j] = x[i * x_row + j * x_col];
}

static void move(int64_t item, void *out, int64_t row, const void *x, int64_t x_row, int64_t x_col, int64_t rows,
                 int64_t cols) {
    if (item == 4) move4(out, row, x, x_row, x_col, rows, cols);
    else move8(out, row, x, x_row, x_col, rows, cols);
}

/* The compute type of an integer is unsigned and of the same bits. */
static bool is_native(int compute, int dtype) {
    return compute == dtype || (compute == RT_U32 && dtype == RT_I32) || (compute == RT_U64 && dtype == RT_I64);
}

void rt_gemm_pack_rows(int compute, void *out, int64_t row, int dtype, const void *x, int64_t x_row, int64_t x_col,
                       int64_t rows, int64_t cols) {
    int64_t item = rt_itemsize(compute);
    if (is_native(compute, dtype)) {
        move(item, out, row, x, x_row, x_col, rows, cols);
        return;
    }
    int64_t x_item = rt_itemsize(dtype);
    if (x_col == 1 && cols > BLOCK_COLS) {
        for (int64_t i = 0; i < rows; i++)
            rt_convert(compute, (char *)out + i * row * item, 1, dtype, (const char *)x + i * x_row * x_item, 1, cols);
        return;
    }
    /* Long runs for the conversion: along rows when those are dense (or nothing is), else along columns. */
    _Alignas(64) char block[BLOCK_ROWS * BLOCK_COLS * 8];
    bool by_rows = x_row != 1 || x_col == 1;
    for (int64_t i = 0; i < rows; i += BLOCK_ROWS) {
        int64_t r = rows - i < BLOCK_ROWS ? rows - i : BLOCK_ROWS;
        for (int64_t j = 0; j < cols; j += BLOCK_COLS) {
            int64_t c = cols - j < BLOCK_COLS ? cols - j : BLOCK_COLS;
            const char *from = (const char *)x + (i * x_row + j * x_col) * x_item;
            char *to = (char *)out + (i * row + j) * item;
            if (by_rows) {
                for (int64_t q = 0; q < r; q++)
                    rt_convert(compute, to + q * row * item, 1, dtype, from + q * x_row * x_item, x_col, c);
            } else {
                for (int64_t q = 0; q < c; q++)
                    rt_convert(compute, block + q * r * item, 1, dtype, from + q * x_col * x_item, 1, r);
                move(item, to, row, block, 1, r, r, c);
            }
        }
    }
}

void gemm_pack_panels(const rt_gemm_args *g, int compute, int64_t batch, int64_t k0, int64_t k1, int64_t n0, int64_t n1,
                      void *panels, int64_t panel) {
    if (g->pack_b) {
        g->pack_b(g->pack_arg, batch, k0, k1, n0, n1, panels, panel);
        return;
    }
    int64_t item = rt_itemsize(compute), width = RT_PANEL_BYTES / item, x_item = rt_itemsize(g->dtype);
    const char *b = (const char *)g->b + (batch * g->b_batch + k0 * g->b_row + n0 * g->b_col) * x_item;
    int64_t rows = k1 - k0, cols = n1 - n0;
    /* Columns past the end are computed with and dropped: zero, because old memory may hold slow denormals. */
    if (cols % width) memset((char *)panels + cols / width * panel * item, 0, (size_t)(rows * RT_PANEL_BYTES));
    if (is_native(compute, g->dtype) || g->b_col != 1) {
        int64_t j = 0;
        for (int64_t n = PANELS * LINE; item == 4 && g->b_col == 1 && j < cols / width * width; j += n) {
            n = cols - j < n ? (cols - j) / width * width : n;
            copy_panels((uint32_t *)panels + j / width * panel, panel, (const uint32_t *)b + j, g->b_row, rows,
                        n / width);
        }
        for (; j < cols; j += width)
            rt_gemm_pack_rows(compute, (char *)panels + j / width * panel * item, width, g->dtype,
                              b + j * g->b_col * x_item, g->b_row, g->b_col, rows, cols - j < width ? cols - j : width);
        return;
    }
    /* Dense rows to convert: in pieces longer than a panel is wide. */
    _Alignas(64) char line[BLOCK_COLS * 8];
    for (int64_t i = 0; i < rows; i++) {
        for (int64_t j = 0; j < cols; j += BLOCK_COLS) {
            int64_t n = cols - j < BLOCK_COLS ? cols - j : BLOCK_COLS;
            rt_convert(compute, line, 1, g->dtype, b + (i * g->b_row + j) * x_item, 1, n);
            for (int64_t q = 0; q < n; q += width)
                memcpy((char *)panels + ((j + q) / width * panel + i * width) * item, line + q * item,
                       (size_t)((n - q < width ? n - q : width) * item));
        }
    }
}
