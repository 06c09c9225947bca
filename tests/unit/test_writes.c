/* test_writes.c: what graphs write (graph/writes.h), as a table: a graph, who shares memory, and the values whose
 * memory is written, with "d" for elements and "m" for the tensor's own sizes. */
#include "graph/writes.h"

#include "check.h"

typedef struct row { const char *what, *text; cr_sharing sharing; const char *written; } row;

#define NORM(training) \
    "  %y = aten.batch_norm(%x, none, none, %mean, %var, " training ", 0.1, 1e-05, true)\n  return %y\n}"
#define COND(yes)                                                                                                   \
    "graph(%p: b8[], %a: f32[2], %b: f32[2]) {\n  graph yes(%u: f32[2], %v: f32[2]) {\n" yes "    return %r\n  }\n" \
    "  graph no(%u: f32[2], %v: f32[2]) {\n    %r = aten.mul.Tensor(%u, %v)\n    return %r\n  }\n"                  \
    "  %y = higher_order.cond(%p, @yes, @no, [%a, %b])\n  return %y\n}"

static const row rows[] = {
    { "nothing", "graph(%x: f32[2]) {\n  %y = aten.relu(%x)\n  return %y\n}", CR_SHARING_POSSIBLE, "" },
    { "in place: the argument, the result, what it is after",
      "graph(%x: f32[2], %z: f32[2]) {\n  %y, %x1! = aten.add_.Tensor(%x, %z)\n  return %y\n}", CR_SHARING_KNOWN,
      "x:d y:d x1:d" },
    { "an intermediate: no input",
      "graph(%x: f32[2]) {\n  %c = aten.clone(%x)\n  %y, %c1! = aten.relu_(%c)\n  return %y\n}", CR_SHARING_POSSIBLE,
      "c:d y:d c1:d" },
    { "through a view of a view",
      "graph(%x: f32[2, 3]) {\n  %v = aten.view(%x, [6])\n  %s = aten.slice.Tensor(%v, 0, 1, 3)\n  %y, %s1! = "
      "aten.zero_(%s)\n  return %x\n}",
      CR_SHARING_KNOWN, "x:d v:d s:d y:d s1:d" },
    { "a copy of a view is apart",
      "graph(%x: f32[2, 3]) {\n  %t = aten.t(%x)\n  %c = aten.contiguous(%t)\n  %y, %c1! = aten.zero_(%c)\n  return "
      "%x\n}",
      CR_SHARING_KNOWN, "c:d y:d c1:d" },
    { "where only the op is known it may be none",
      "graph(%x: f32[2, 3]) {\n  %t = aten.t(%x)\n  %c = aten.contiguous(%t)\n  %y, %c1! = aten.zero_(%c)\n  return "
      "%x\n}",
      CR_SHARING_POSSIBLE, "x:d t:d c:d y:d c1:d" },
    { "a result of a composite op is no view of its weight",
      "graph(%x: f32[2, 3], %w: f32[2, 3]) {\n  %l = aten.linear(%x, %w)\n  %y, %l1! = aten.relu_(%l)\n  return %y\n}",
      CR_SHARING_POSSIBLE, "l:d y:d l1:d" },
    { "but dropout may hand it on",
      "graph(%x: f32[2]) {\n  %l = aten.dropout(%x, 0.5, false)\n  %y, %l1! = aten.relu_(%l)\n  return %y\n}",
      CR_SHARING_POSSIBLE, "x:d l:d y:d l1:d" },
    { "lists", "graph(%x: f32[2, 2]) {\n  %a, %b = aten.unbind.int(%x)\n  %y, %b1! = aten.zero_(%b)\n  return %x\n}",
      CR_SHARING_KNOWN, "x:d a:d b:d y:d b1:d" },
    { "the tensor itself", "graph(%x: f32[2, 3]) {\n  %y, %x1! = aten.t_(%x)\n  return %y\n}", CR_SHARING_KNOWN,
      "x:m y:m x1:m" },
    { "both", "graph(%x: f32[2, 3]) {\n  %y, %x1! = aten.t_(%x)\n  %z, %x2! = aten.zero_(%x1)\n  return %z\n}",
      CR_SHARING_KNOWN, "x:dm y:dm x1:dm z:dm x2:dm" },
    { "marked statistics",
      "graph(%x: f32[3, 2], %mean: f32[2], %var: f32[2]) {\n  %y, %m, %s, %a!, %b! = aten._native_batch_norm_legit(%x, "
      "none, none, %mean, %var, true, 0.1, 1e-05)\n  return %y\n}",
      CR_SHARING_KNOWN, "mean:d var:d a:d b:d" },
    { "unmarked statistics", "graph(%x: f32[3, 2], %mean: f32[2], %var: f32[2]) {\n" NORM("true"), CR_SHARING_KNOWN,
      "mean:d var:d" },
    { "statistics that are only read", "graph(%x: f32[3, 2], %mean: f32[2], %var: f32[2]) {\n" NORM("false"),
      CR_SHARING_KNOWN, "" },
    { "a region: the operand whose placeholder a body writes", COND("    %r, %v1! = aten.add_.Tensor(%v, %u)\n"),
      CR_SHARING_KNOWN, "b:d" },
    { "a region that writes memory of its own",
      COND("    %c = aten.clone(%v)\n    %r, %c1! = aten.add_.Tensor(%c, %u)\n"), CR_SHARING_KNOWN, "" },
};

/* "name:kinds name:kinds", in the order of the values. */
static cr_status describe(const cr_graph *g, const cr_writes *w, cr_str *out) {
    for (uint32_t v = 0; v < cr_graph_value_count(g); v++) {
        int kinds = cr_writes_to(w, v);
        if (!kinds) continue;
        cr_str_addf(out, "%s%s:%s%s", *cr_str_get(out) ? " " : "", cr_graph_value(g, v)->name,
                    kinds & CR_WRITE_DATA ? "d" : "", kinds & CR_WRITE_META ? "m" : "");
    }
    return cr_str_status(out);
}

static void table(void) {
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        cr_graph *g = NULL;
        cr_writes w = { 0 };
        cr_str text;
        cr_str_init(&text);
        cr_status status = cr_graph_parse(NULL, rows[i].text, &g);
        if (!status) status = cr_writes_find(g, rows[i].sharing, &w);
        if (!status) status = describe(g, &w, &text);
        if (status) CHECK_FAILED("%s: %s", rows[i].what, cr_error_message());
        else if (strcmp(cr_str_get(&text), rows[i].written))
            CHECK_FAILED("%s: '%s' is written, expected '%s'", rows[i].what, cr_str_get(&text), rows[i].written);
        else check_count(true);
        if (!status) CHECK(cr_graph_writes(g) || !w.all.n);
        cr_str_dispose(&text);
        cr_writes_dispose(&w);
        cr_graph_release(g);
    }
}

/* Every write is in the list once, in order, and what a later node writes is not what an earlier one does. */
static void order(void) {
    cr_graph *g = NULL;
    cr_writes w = { 0 };
    CHECK_OK(cr_graph_parse(NULL,
                            "graph(%x: f32[2], %z: f32[2]) {\n  %a, %x1! = aten.relu_(%x)\n  %b, %z1! = "
                            "aten.relu_(%z)\n  %c, %x2! = aten.neg_(%x1)\n  return %c\n}",
                            &g));
    if (!g) return;
    CHECK_OK(cr_writes_find(g, CR_SHARING_KNOWN, &w));
    uint32_t x = cr_graph_find(g, "x"), z = cr_graph_find(g, "z"), b = cr_graph_value(g, cr_graph_find(g, "b"))->node;
    CHECK_EQ(w.all.n, 3);
    CHECK(w.all.n == 3 && w.all.at[0].value == x && w.all.at[1].value == z && w.all.at[1].node == b);
    CHECK(cr_writes_after(&w, x, b) && !cr_writes_after(&w, z, b));
    cr_writes_dispose(&w);
    cr_graph_release(g);
}

int main(void) {
    RUN(table);
    RUN(order);
    return check_summary();
}
