/* autocast.c: PyTorch's policies of mixed precision on the CPU, by op.
 *
 * A region of mixed precision has no code of its own in an archive: which casts it makes follows from the ops inside. The
 * reader writes them down as nodes, so that nothing later needs to know of it; casting twice is casting once, so the
 * region may stay around them. */
#include "export/autocast.h"

typedef enum policy { LOWER, FLOAT32, WIDEST } policy;

static const struct { const char *name; policy policy; } rows[] = {
#define X(name) { #name, LOWER },
    X(conv1d) X(conv2d) X(conv3d) X(conv_tbc) X(conv_transpose1d) X(conv_transpose2d) X(conv_transpose3d) X(_convolution) X(linear) X(matmul) X(mm)
    X(bmm) X(addmm) X(addbmm) X(baddbmm) X(_addmm_activation) X(linalg_vecdot) X(prelu) X(scaled_dot_product_attention) X(_native_multi_head_attention)
#undef X
#define X(name) { #name, FLOAT32 },
    X(adaptive_avg_pool3d) X(adaptive_max_pool3d) X(avg_pool3d) X(binary_cross_entropy) X(binary_cross_entropy_with_logits) X(cdist) X(cholesky)
    X(cholesky_inverse) X(cholesky_solve) X(cosine_embedding_loss) X(cross_entropy_loss) X(ctc_loss) X(fft_fft) X(fft_fft2) X(fft_fftn) X(fft_hfft)
    X(fft_ifft) X(fft_ifft2) X(fft_ifftn) X(fft_ihfft) X(fft_irfft) X(fft_irfft2) X(fft_irfftn) X(fft_rfft) X(fft_rfft2) X(fft_rfftn)
    X(fractional_max_pool2d) X(fractional_max_pool3d) X(geqrf) X(grid_sampler) X(grid_sampler_2d) X(grid_sampler_3d) X(hinge_embedding_loss)
    X(huber_loss) X(inverse) X(kl_div) X(l1_loss) X(linalg_cholesky) X(linalg_cholesky_ex) X(linalg_cond) X(linalg_eig) X(linalg_eigh) X(linalg_eigvals)
    X(linalg_eigvalsh) X(linalg_householder_product) X(linalg_inv) X(linalg_inv_ex) X(linalg_lstsq) X(linalg_matrix_rank) X(linalg_qr) X(linalg_solve)
    X(linalg_svd) X(linalg_svdvals) X(linalg_tensorinv) X(linalg_tensorsolve) X(lu_solve) X(margin_ranking_loss) X(max_pool3d) X(max_unpool2d)
    X(max_unpool3d) X(mse_loss) X(multi_margin_loss) X(multilabel_margin_loss) X(nanquantile) X(nll_loss) X(nll_loss2d) X(orgqr) X(ormqr) X(pinverse)
    X(poisson_nll_loss) X(polar) X(prod) X(qr) X(quantile) X(reflection_pad1d) X(reflection_pad2d) X(replication_pad1d) X(replication_pad2d)
    X(replication_pad3d) X(smooth_l1_loss) X(soft_margin_loss) X(stft) X(svd) X(trace) X(triangular_solve) X(triplet_margin_loss) X(view_as_complex)
#undef X
    { "cat", WIDEST }, { "stack", WIDEST }, { "index_copy", WIDEST },
};

int cr__autocast_dtype(const cr_op *op, int lower, int widest) {
    if (strcmp(op->schema.ns, "aten")) return -1;
    for (size_t i = 0; i < CR_COUNT(rows); i++)
        if (!strcmp(rows[i].name, op->schema.name)) return rows[i].policy == LOWER ? lower : rows[i].policy == FLOAT32 ? CR_F32 : widest;
    return -1;
}
