/* rows_step.c: a cresset::rows node as a step.
 *
 * Ports are windows with the domain's axes for dimensions: an axis that a tensor does not have gets the stride 0.
 * Beside the loops, the step has the body as ordinary steps, which is what runs where nothing has been emitted. */
#include "lower/rows.h"

static cr_status port_window(cr__method *m, const cr_row_kernel *k, const cr_row_port *p, uint32_t v, int32_t *out) {
    const cr_meta *meta = cr_graph_value(m->g, v)->meta;
    int32_t own;
    cr_meta view;
    CR_TRY(cr__window_of(m, v, &own));
    cr_meta_init(&view, meta->dtype, meta->device);
    view.rank = (uint8_t)k->naxes;
    view.offset = meta->offset;
    for (int a = 0; a < k->naxes; a++) {
        view.size[a] = k->size[a];
        view.stride[a] = p->dim[a] < 0 ? 0 : meta->stride[p->dim[a]];
    }
    return cr__window(m, m->windows.at[own].buffer, &view, out);
}

/* Operands and outer numbers of the body, and its results, for runs without emission. */
static cr_status lower_body(cr__method *m, const cr_node *node, rt_rows *rows) {
    cr__symbols symbols = { 0 };
    rt_method *body = NULL;
    rt_operand_ref refs[RT_ROWS_PORTS];
    int32_t outs[RT_ROWS_PORTS];
    cr_status status = CR_OK;
    const cr_arg *operands = &node->args[1];
    CR_TRY_OUT(cr__outer_symbols(m, node->args[0].u.graph, &symbols));
    if (operands->n + symbols.n > RT_ROWS_PORTS || node->nvalues > RT_ROWS_PORTS)
        CR_TRY_OUT(CR_FAIL(CR_EUNSUPPORTED, "a region with %zu operands", operands->n + symbols.n));
    for (uint32_t i = 0; i < operands->n; i++) {
        refs[i] = (rt_operand_ref){ .kind = RT_A_WINDOW };
        CR_TRY_OUT(cr__window_of(m, (uint32_t)operands->u.list[i].u.i, &refs[i].at));
    }
    for (size_t i = 0; i < symbols.n; i++)
        refs[operands->n + i] = (rt_operand_ref){ .kind = cr_sym_type_of(symbols.at[i]) == CR_TYPE_FLOAT ? RT_A_FLOAT
                                                                                                         : RT_A_INT,
                                                  .at = cr__slot_find(m, symbols.at[i]) };
    for (uint32_t i = 0; i < node->nvalues; i++) CR_TRY_OUT(cr__window_of(m, node->first + i, &outs[i]));
    CR_TRY_OUT(cr__lower_body(m, node->args[0].u.graph, &symbols, &body));
    rows->body = body;
    rows->noperands = (int32_t)(operands->n + symbols.n);
    rows->nresults = (int32_t)node->nvalues;
    rows->operands = (int32_t)m->args.n;
    rows->results = (int32_t)m->lists.n;
    for (int32_t i = 0; i < rows->noperands; i++) CR_TRY_OUT(cr__arg_add(m, refs[i]));
    for (int32_t i = 0; i < rows->nresults; i++) CR_TRY_OUT(cr__list_add(m, outs[i]));
out:
    cr_vec_dispose(&symbols);
    return status;
}

/* A body that does not fit into one kernel after all: called as it is, as the true branch of a condition is. */
static cr_status call_body(cr__method *m, const cr_node *node) {
    rt_rows parts = { 0 };
    const rt_method **bodies = cr_arena_calloc(&m->l->arena, 2, sizeof *bodies);
    int32_t always;
    if (!bodies) return CR_ENOMEM;
    CR_TRY(lower_body(m, node, &parts));
    bodies[0] = bodies[1] = parts.body;
    CR_TRY(cr__slot_bits(m, CR_TYPE_INT, 1, &always));
    rt_step s = { .kind = RT_STEP_COND,
                  .nargs = (uint16_t)(1 + parts.noperands),
                  .nout = (uint16_t)parts.nresults,
                  .args = (int32_t)m->args.n,
                  .u.bodies = bodies };
    CR_TRY(cr__arg_add(m, (rt_operand_ref){ .kind = RT_A_INT, .at = always }));
    for (int32_t i = 0; i < parts.noperands; i++) CR_TRY(cr__arg_add(m, m->args.at[parts.operands + i]));
    s.outs = (int32_t)m->args.n;
    for (int32_t i = 0; i < parts.nresults; i++)
        CR_TRY(cr__arg_add(m, (rt_operand_ref){ .kind = RT_A_WINDOW, .at = m->lists.at[parts.results + i] }));
    return cr__step_add(m, s);
}

cr_status cr__lower_rows(cr__method *m, const cr_node *node) {
    cr_row_kernel *k = NULL;
    int32_t window[RT_ROWS_PORTS];
    rt_rows *rows = cr_arena_calloc(&m->l->arena, 1, sizeof *rows);
    if (!rows) return CR_ENOMEM;
    cr_status status = cr_row_build(node->args[0].u.graph, &m->l->arena, &k);
    if (status == CR_EUNSUPPORTED) {
        cr_error_release(cr_error_take());
        return call_body(m, node);
    }
    CR_TRY(status);
    *rows = (rt_rows){ .nports = (uint8_t)k->nports,
                       .naxes = (uint8_t)k->naxes,
                       .nrow = (uint8_t)k->nrow,
                       .column = k->column,
                       .reduces = k->reduces || k->whole,
                       .cost = k->cost,
                       .scratch = k->scratch,
                       .kernel = (int32_t)m->l->kernels.n };
    CR_TRY(cr_vec_push(&m->l->kernels, k));
    for (int i = 0; i < k->nports; i++) {
        const cr_row_port *p = &k->port[i];
        uint32_t v = i < k->nin ? (uint32_t)node->args[1].u.list[p->index].u.i : node->first + (uint32_t)p->index;
        CR_TRY(port_window(m, k, p, v, &window[i]));
    }
    CR_TRY(lower_body(m, node, rows));
    rt_step s = { .kind = RT_STEP_ROWS,
                  .nargs = (uint16_t)k->nin,
                  .nout = (uint16_t)(k->nports - k->nin),
                  .args = (int32_t)m->args.n,
                  .outs = (int32_t)m->lists.n,
                  .u.rows = rows };
    for (int i = 0; i < k->nin; i++) CR_TRY(cr__arg_add(m, (rt_operand_ref){ .kind = RT_A_WINDOW, .at = window[i] }));
    for (int i = k->nin; i < k->nports; i++) CR_TRY(cr__list_add(m, window[i]));
    return cr__step_add(m, s);
}
