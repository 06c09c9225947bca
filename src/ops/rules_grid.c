/* rules_grid.c: results of sampling at the places of a grid, and of making such grids. */
#include "ops/rules.h"

static const char *op_name(const cr_rule *r) { return r->op->schema.name; }

/* input and grid from argument `at` on; `axes` is 0 where two or three will do. */
static cr_status check_grid(cr_rule *r, int at, int axes) {
    const cr_meta *input = cr_rule_meta(r, at), *grid = cr_rule_meta(r, at + 1);
    if (input->rank != grid->rank || (axes ? input->rank != axes + 2 : input->rank != 4 && input->rank != 5))
        return CR_FAIL(CR_ERUNTIME, "%s: input and grid must both have %s dimensions, got %d and %d", op_name(r),
                       axes == 2   ? "4"
                       : axes == 3 ? "5"
                                   : "4 or 5",
                       input->rank, grid->rank);
    if (input->dtype != grid->dtype)
        return CR_FAIL(CR_ERUNTIME, "%s: input and grid must have the same dtype, got %s and %s", op_name(r),
                       rt_dtype_name(input->dtype), rt_dtype_name(grid->dtype));
    CR_TRY(cr_dim_require(r->env, input->size[0], CR_EQ, grid->size[0],
                          "grid_sampler: input and grid must have the same batch size"));
    CR_TRY(cr_dim_require(r->env, grid->size[grid->rank - 1], CR_EQ, input->rank - 2,
                          "grid_sampler: the grid's last size must be the number of spatial dimensions"));
    for (int d = 2; d < input->rank; d++)
        CR_TRY(cr_dim_require(r->env, input->size[d], CR_GT, 0,
                              "grid_sampler: the spatial sizes of the input must be positive"));
    for (int i = 2; i < 4; i++) { /* PyTorch leaves the result as it finds it for most of these */
        const char *name = r->op->schema.params[at + i].name;
        long long mode = r->arg[at + i].u.i;
        if (mode < 0 || mode > 2)
            return CR_FAIL(CR_ERUNTIME, "%s: %s must be 0, 1 or 2, got %lld", op_name(r), name, mode);
    }
    if (r->arg[at + 2].u.i == 2 && input->rank == 5)
        return CR_FAIL(CR_ERUNTIME, "%s: bicubic interpolation is for inputs of 4 dimensions only", op_name(r));
    return CR_OK;
}

static int axes_of(const cr_rule *r) { return strstr(op_name(r), "3d") ? 3 : 2; }

cr_status check_grid_sampler(cr_rule *r) { /* input, grid, interpolation_mode, padding_mode, align_corners */
    CR_TRY(check_grid(r, 0, 0));
    return dtype_same(r);
}

static void output_sizes(const cr_meta *input, const cr_meta *grid, cr_dim *size) {
    size[0] = input->size[0];
    size[1] = input->size[1];
    for (int d = 2; d < input->rank; d++) size[d] = grid->size[d - 1];
}

cr_status shape_grid_sampler(cr_rule *r) { /* input, grid, interpolation_mode, padding_mode, align_corners */
    cr_dim size[CR_MAX_RANK];
    CR_TRY(check_grid(r, 0, axes_of(r)));
    output_sizes(cr_rule_meta(r, 0), cr_rule_meta(r, 1), size);
    return cr_rule_add_dense(r, r->result, cr_rule_meta(r, 0)->rank, size);
}

/* grad_output, input, grid, interpolation_mode, padding_mode, align_corners, output_mask */
cr_status shape_grid_sampler_backward(cr_rule *r) {
    const cr_meta *grad = cr_rule_meta(r, 0), *input = cr_rule_meta(r, 1), *grid = cr_rule_meta(r, 2);
    cr_dim size[CR_MAX_RANK];
    CR_TRY(check_grid(r, 1, axes_of(r)));
    output_sizes(input, grid, size);
    if (grad->rank != input->rank)
        return CR_FAIL(CR_ERUNTIME, "%s: grad_output must have %d dimensions, got %d", op_name(r), input->rank,
                       grad->rank);
    for (int d = 0; d < grad->rank; d++)
        CR_TRY(cr_dim_require(r->env, grad->size[d], CR_EQ, size[d],
                              "grid_sampler_backward: grad_output must have the sizes of the result"));
    CR_TRY(cr_rule_add_dense(r, input->dtype, input->rank, input->size));
    CR_TRY(cr_rule_add_dense(r, input->dtype, grid->rank, grid->size));
    r->out[0].none = !r->arg[6].u.list[0].u.i;
    return CR_OK;
}

cr_status check_affine_grid(cr_rule *r) { /* theta, size, align_corners */
    const cr_meta *theta = cr_rule_meta(r, 0);
    cr_dim size[CR_MAX_RANK];
    int n;
    CR_TRY(cr_rule_ints(r, 1, 0, CR_MAX_RANK, size, &n));
    if (n != 4 && n != 5) return CR_FAIL(CR_ERUNTIME, "%s: size must have 4 or 5 entries, got %d", op_name(r), n);
    if (theta->rank != 3)
        return CR_FAIL(CR_ERUNTIME, "%s: theta must have 3 dimensions, got %d", op_name(r), theta->rank);
    CR_TRY(cr_dim_require(r->env, theta->size[0], CR_EQ, size[0],
                          "affine_grid_generator: theta must have a matrix for each image"));
    CR_TRY(cr_dim_require(r->env, theta->size[1], CR_EQ, n - 2,
                          "affine_grid_generator: theta must have a row for each spatial dimension"));
    CR_TRY(cr_dim_require(r->env, theta->size[2], CR_EQ, n - 1,
                          "affine_grid_generator: theta must have a column for each spatial dimension and one more"));
    return dtype_same(r);
}
