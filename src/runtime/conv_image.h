/* conv_image.h: a zero-padded copy of an input, in which every tap of a convolution reads dense rows.
 *
 * Output position p and tap t meet the input at p * stride + t * dilation - padding. The copy is split by the remainder
 * of that number by the stride (a phase), in each dimension: within a phase, one step of p is one element, whatever the
 * stride, and all taps stay inside thanks to the padding. So an element's place is a sum,
 *
 *     image(n, c) + tap(t) + at(p),      at(p) = (p0 * extent1 + p1) * extent2 + p2
 *
 * and packing for a product is moving dense pieces of rows. Elements are converted to the compute type on the way. */
#ifndef CRESSET_CONV_IMAGE_H
#define CRESSET_CONV_IMAGE_H

#include "runtime/conv.h"
#include "runtime/gemm_isa.h"

typedef struct conv_image {
    int compute;
    int64_t item;                    /* bytes of an element */
    int64_t extent[RT_CONV_DIMS];    /* of one phase */
    int64_t step[RT_CONV_DIMS];      /* input elements from one element of a phase to the next */
    int64_t phases[RT_CONV_DIMS];
    int64_t *start[RT_CONV_DIMS];    /* input coordinate of each phase's first element; may be outside */
    int64_t plane, channel, picture; /* elements of a phase, of all phases of a channel, of all channels */
    int64_t channels, pictures;      /* that there is room for */
    char *data;
} conv_image;

/* Dimensions and taps for the forward product: tap[c * taps + t] in elements, for the channels of one group. *memory
 * owns image's tables and tap. image->data is not set yet. */
int conv_image_plan(const rt_ctx *ctx, const rt_conv *v, int compute, conv_image *image, int64_t **tap, void **memory);
/* Room for as many of `wanted` pictures as is reasonable, at least one. */
int conv_image_alloc(const rt_ctx *ctx, conv_image *image, int64_t channels, int64_t wanted);
/* Copies pictures [first, first + count) of x. */
int conv_image_fill(const rt_ctx *ctx, const conv_image *image, const rt_view *x, int64_t first, int64_t count);

/* The pieces of 64-byte rows for positions [p0, p1) of a grid of `out` positions; p1 - p0 is at most one panel. */
int conv_image_pieces(const conv_image *image, const int64_t *out, int64_t p0, int64_t p1, gemm_piece *pieces);
/* Element offset of position p. */
int64_t conv_image_at(const conv_image *image, const int64_t *out, int64_t p);

/* Convolutions with nothing to share between outputs: each row of a result plane is a sum of k shifted rows.
 * Plane r of picture q reads the image's channels from r / per_source * source on; `weights` has k for each plane. `g`:
 * where plane 0 of picture 0 goes (c, c_row from plane to plane, c_col, c_batch), alpha, beta and addend. */
typedef struct conv_planes {
    const conv_image *image;
    const int64_t *tap, *grid; /* elements; positions of a plane */
    const rt_view *weights;    /* dense, any dtype */
    int64_t k, planes, per_source, source, pictures;
    rt_gemm_args g;
} conv_planes;
int conv_planes_run(const rt_ctx *ctx, const conv_planes *planes);

/* Packs panels of taps [k0, k1) by positions [n0, n1) of a grid: see rt_gemm_pack_fn. `data` is the first channel. */
void conv_image_pack(const conv_image *image, const char *data, const int64_t *tap_bytes, const int64_t *grid,
                     int64_t k0, int64_t k1, int64_t n0, int64_t n1, void *panels, int64_t panel);

/* x as a view of rank 5: pictures, channels and 3 dimensions. */
rt_view conv_view5(const rt_view *x);
/* Do the last three dimensions step as one? */
bool conv_folds(const rt_view *x5, int64_t *step);

#endif
