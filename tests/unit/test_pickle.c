/* The pickle reader: values of every protocol against their text, a table of bad pickles with the error of each, and
 * torch.save files. pickle_good.inc holds pickles that Python and PyTorch wrote (record_pickle.py). */
#include "archive/pickle.h"
#include "check.h"

#include <stdlib.h>
#include <unistd.h>

/* ---- values ---- */

static const struct { const char *data; size_t size; const char *text; } good[] = {
#include "pickle_good.inc"
};

static void check_text(const void *data, size_t size, const char *text) {
    cr_arena arena;
    cr_str out = {0};
    const cr_pickle *p;
    cr_arena_init(&arena);
    cr_status status = cr_pickle_parse(&arena, data, size, &p);
    CHECK_OK(status);
    if (!status) {
        cr_pickle_print(p, &out);
        CHECK_STR(cr_str_get(&out), text);
    }
    cr_str_dispose(&out);
    cr_arena_dispose(&arena);
}

static void values(void) {
    for (size_t i = 0; i < CR_COUNT(good); i++) check_text(good[i].data, good[i].size, good[i].text);
}

#define TEXT(literal) literal, sizeof literal - 1

static void opcodes_by_hand(void) {
    check_text(TEXT("I01\n."), "True");
    check_text(TEXT("I00\n."), "False");
    check_text(TEXT("I-7\n."), "-7");
    check_text(TEXT("L123L\n."), "123");
    check_text(TEXT("F1e3\n."), "1000.0");
    check_text(TEXT("Fnan\n."), "nan");
    check_text(TEXT("S'a\\x41\\n\\''\n."), "'aA\\n\\''");
    check_text(TEXT("Vh\xe9\\u20ac\\\n."), "'h\xc3\xa9\xe2\x82\xac\\\\'");
    check_text(TEXT("T\x02\0\0\0hi."), "'hi'");
    check_text(TEXT("U\x02hi."), "'hi'");
    check_text(TEXT("(I1\nI2\nd."), "{1: 2}");
    check_text(TEXT("(I1\nI2\nl."), "[1, 2]");
    check_text(TEXT("(NN1N."), "None");           /* POP_MARK */
    check_text(TEXT("N(0."), "None");             /* POP of a mark */
    check_text(TEXT("NN0."), "None");
    check_text(TEXT("K\x01" "2\x86."), "(1, 1)"); /* DUP */
    check_text(TEXT("]p5\n0g5\n."), "[]");
    check_text(TEXT("]r\x05\0\0\0j\x05\0\0\0\x86."), "([], [])");
    check_text(TEXT("\x8a\0."), "0");
    check_text(TEXT("\x8a\x01\xff."), "-1");
    check_text(TEXT("\x8a\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff."), "-1"); /* redundant sign */
    check_text(TEXT("\x8b\x02\0\0\0\x01\x02."), "513");
    check_text(TEXT("\x8f(K\x01K\x02\x90."), "{1, 2}");
    check_text(TEXT("(K\x01\x91."), "frozenset({1})");
    check_text(TEXT("\x8d\x02\0\0\0\0\0\0\0hi."), "'hi'");
    check_text(TEXT("\x8e\x02\0\0\0\0\0\0\0hi."), "b'hi'");
    check_text(TEXT("]\x94(h\0Nt."), "([], None)"); /* the list alone: it does not hold itself */
    check_text(TEXT("ctorch\nchannels_last\n."), "torch.channels_last");
    check_text(TEXT("}(K\x01NK\x02Nu."), "{1: None, 2: None}");
    check_text(TEXT("}((K\x01K\x02tNctorch\nfloat16\nNG\x7f\xf8\0\0\0\0\0\0Nu."), "{(1, 2): None, torch.float16: None, "
                                                                                  "nan: None}");
}

static void find(void) {
    cr_arena arena;
    const cr_pickle *p;
    cr_arena_init(&arena);
    CHECK_OK(cr_pickle_parse(&arena, TEXT("}(U\x01" "aK\x01U\x02" "abK\x02u."), &p));
    CHECK_EQ(cr_pickle_find(p, "ab")->u.i, 2);
    CHECK(!cr_pickle_find(p, "b"));
    CHECK(!cr_pickle_find(cr_pickle_find(p, "a"), "a"));
    CHECK(!cr_pickle_find(NULL, "a"));
    cr_arena_dispose(&arena);
}

/* ---- bad pickles ---- */

#define STORAGE(key, class, numel) "(U\x07storagec" class "\nU" key "U\x03" "cpu" numel "tQ"
#define FLOATS "(U\x07storagectorch\nFloatStorage\nU\x01" "0U\x03" "cpuK\x06tQ"
#define V2 "ctorch._utils\n_rebuild_tensor_v2\n"
#define HOOKS "\x89" "ccollections\nOrderedDict\n)R"

static const struct { const char *data; size_t size; cr_status code; const char *part; } bad[] = {
    /* the machine */
    { TEXT(""), CR_EFORMAT, "byte 0 (end): the pickle ends without STOP" },
    { TEXT("N"), CR_EFORMAT, "ends without STOP" },
    { TEXT("."), CR_EFORMAT, "byte 0 (STOP): the stack is empty" },
    { TEXT("N.N"), CR_EFORMAT, "1 bytes follow the end" },
    { TEXT("\xff."), CR_EFORMAT, "0xff is no pickle opcode" },
    { TEXT("z."), CR_EFORMAT, "0x7a is no pickle opcode" },
    { TEXT("\x80\x06N."), CR_EUNSUPPORTED, "pickle protocol 6; 0 to 5 are read" },
    { TEXT("\x80"), CR_EFORMAT, "needs 1 more bytes, the pickle has 0" },
    { TEXT("\x95\xff\xff\xff\xff\xff\xff\xff\xffN."), CR_EFORMAT,
      "a frame of 18446744073709551615 bytes, the pickle has 2 more" },
    { TEXT("\x95\x03\0\0\0\0\0\0\0N."), CR_EFORMAT, "a frame of 3 bytes" },
    { TEXT("0."), CR_EFORMAT, "(POP): the stack is empty" },
    { TEXT("2."), CR_EFORMAT, "(DUP): the stack is empty" },
    { TEXT("N(2."), CR_EFORMAT, "byte 2 (DUP): the stack is empty" }, /* not below the mark */
    { TEXT("1."), CR_EFORMAT, "there is no mark on the stack" },
    { TEXT("Nt."), CR_EFORMAT, "there is no mark on the stack" },
    { TEXT("N\x86."), CR_EFORMAT, "fewer than 2 entries" },
    { TEXT("(N."), CR_OK, "" }, /* a mark left over is harmless, as in Python */
    /* numbers and texts */
    { TEXT("I12"), CR_EFORMAT, "the line has no end" },
    { TEXT("I\n."), CR_EFORMAT, "'' is no integer" },
    { TEXT("I1x\n."), CR_EFORMAT, "'1x' is no integer" },
    { TEXT("I9223372036854775808\n."), CR_EUNSUPPORTED, "an integer beyond 64 bits" },
    { TEXT("L-9223372036854775809L\n."), CR_EUNSUPPORTED, "an integer beyond 64 bits" },
    { TEXT("\x8a\x09\0\0\0\0\0\0\0\0\x01."), CR_EUNSUPPORTED, "an integer beyond 64 bits" },
    { TEXT("\x8a\x09\0\0\0\0\0\0\0\x80\0."), CR_EUNSUPPORTED, "an integer beyond 64 bits" },
    { TEXT("\x8b\xff\xff\xff\x7f\x01."), CR_EFORMAT, "needs 2147483647 more bytes, the pickle has 2" },
    { TEXT("\x8b\xff\xff\xff\xff\x01."), CR_EFORMAT, "a negative length" },
    { TEXT("F1.5x\n."), CR_EFORMAT, "'1.5x' is no number" },
    { TEXT("F0x10\n."), CR_EFORMAT, "'0x10' is no number" },
    { TEXT("F\n."), CR_EFORMAT, "'' is no number" },
    { TEXT("X\xff\xff\xff\xff."), CR_EFORMAT, "needs 4294967295 more bytes" },
    { TEXT("\x8d\xff\xff\xff\xff\xff\xff\xff\xff."), CR_EFORMAT, "needs 18446744073709551615 more bytes" },
    { TEXT("\x8e\xff\xff\xff\xff\xff\xff\xff\x7f."), CR_EFORMAT, "needs 9223372036854775807 more bytes" },
    { TEXT("U\x02\xc3("), CR_EFORMAT, "the text is not UTF-8" },
    { TEXT("X\x03\0\0\0\xed\xa0\x80."), CR_EFORMAT, "the text is not UTF-8" }, /* a surrogate */
    { TEXT("X\x02\0\0\0\xc0\x80."), CR_EFORMAT, "the text is not UTF-8" },     /* overlong */
    { TEXT("S'abc\n."), CR_EFORMAT, "not in quotes" },
    { TEXT("S'a\\q'\n."), CR_EFORMAT, "a bad escape" },
    { TEXT("S'\\'\n."), CR_EFORMAT, "a bad escape" },
    { TEXT("V\\u12\n."), CR_EFORMAT, "a bad \\u escape" },
    { TEXT("V\\Uffffffff\n."), CR_EFORMAT, "a bad \\U escape" },
    /* containers and memo */
    { TEXT("NNa."), CR_EFORMAT, "expects a list below its items, found None" },
    { TEXT(")(Ne."), CR_EFORMAT, "expects a list below its items, found a tuple" },
    { TEXT("]NNs."), CR_EFORMAT, "expects a dict below its items, found a list" },
    { TEXT("}(Nu."), CR_EFORMAT, "a key without a value" },
    { TEXT("(Nd."), CR_EFORMAT, "a key without a value" },
    { TEXT("](N\x90."), CR_EFORMAT, "expects a set below its items" },
    { TEXT("h\0."), CR_EFORMAT, "nothing was stored in memo 0" },
    { TEXT("Nq\x02h\x01."), CR_EFORMAT, "nothing was stored in memo 1" },
    { TEXT("Nr\xff\xff\xff\xff."), CR_EFORMAT, "memo index 4294967295 in a pickle of 7 bytes" },
    { TEXT("Np99999999999\n."), CR_EFORMAT, "memo index 99999999999" },
    { TEXT("Np-1\n."), CR_EFORMAT, "a negative memo index" },
    { TEXT("q\0."), CR_EFORMAT, "the stack is empty" },
    { TEXT("]q\0h\0a."), CR_EFORMAT, "a list contains itself" },
    { TEXT("]q\0(h\0tq\x01"
           "0h\0h\x01"
           "a."),
      CR_EFORMAT, "contains itself" },
    { TEXT("}q\0K\x01h\0s."), CR_EFORMAT, "a dict contains itself" },
    { TEXT("}]Ns."), CR_EFORMAT, "a dict has the key, which has no hash, []" },
    { TEXT("}(K\x01]tNs."), CR_EFORMAT, "a dict has the key, which has no hash, (1, [])" },
    { TEXT("}(K\x01NK\x01Nu."), CR_EFORMAT, "a dict holds twice the key 1" },
    { TEXT("}(U\x01"
           "aNU\x01"
           "aNu."),
      CR_EFORMAT, "a dict holds twice the key 'a'" },
    { TEXT("}(K\x01NG\x3f\xf0\0\0\0\0\0\0Nu."), CR_EFORMAT, "a dict holds twice the key 1.0" },
    { TEXT("}(K\x01N\x88Nu."), CR_EFORMAT, "a dict holds twice the key True" },
    { TEXT("\x8f(K\x01K\x01\x90."), CR_EFORMAT, "a set holds twice the key 1" },
    { TEXT("(}\x91."), CR_EFORMAT, "a frozenset has the key, which has no hash, {}" },
    /* names and calls */
    { TEXT("cos\nsystem\n(U\x02lstR."), CR_EUNSUPPORTED,
      "byte 0 (GLOBAL): the pickle names os.system, which is not allowed" },
    { TEXT("U\x02osU\x06system\x93."), CR_EUNSUPPORTED, "the pickle names os.system" },
    { TEXT("(U\x02lsios\nsystem\n."), CR_EUNSUPPORTED, "(INST): the pickle names os.system" },
    { TEXT("cbuiltins\neval\n."), CR_EUNSUPPORTED, "builtins.eval" },
    { TEXT("c__builtin__\ngetattr\n."), CR_EUNSUPPORTED, "__builtin__.getattr" },
    { TEXT("ctorch._utils\n_rebuild_wrapper_subclass\n."), CR_EUNSUPPORTED, "torch._utils._rebuild_wrapper_subclass" },
    { TEXT("ctorch._utils\n_rebuild_sparse_tensor\n."), CR_EUNSUPPORTED, "torch._utils._rebuild_sparse_tensor" },
    { TEXT("ctorch._utils\n_rebuild_qtensor\n."), CR_EUNSUPPORTED, "torch._utils._rebuild_qtensor" },
    { TEXT("c__main__\nPoint\n(K\x01K\x02t\x81."), CR_EUNSUPPORTED, "__main__.Point" },
    { TEXT("cnumpy._core.multiarray\nscalar\n."), CR_EUNSUPPORTED, "numpy._core.multiarray.scalar" },
    { TEXT("c\nx\x01\n."), CR_EUNSUPPORTED, "names .x?," },
    { TEXT("ctorch\n"), CR_EFORMAT, "the line has no end" },
    { TEXT("NN\x93."), CR_EFORMAT, "a name is two texts, found None and None" },
    { TEXT("ccollections\nOrderedDict\n."), CR_EUNSUPPORTED, "holds collections.OrderedDict itself" },
    { TEXT("ccollections\nOrderedDict\nNR."), CR_EFORMAT, "the arguments are None, expected a tuple" },
    { TEXT("ccollections\nOrderedDict\n(NtR."), CR_EFORMAT, "got 1 arguments, expected 0 to 0" },
    { TEXT("ccollections\nOrderedDict\n)\x81."), CR_EUNSUPPORTED, "(NEWOBJ): makes an object of a class" },
    { TEXT("ccollections\nOrderedDict\n)}\x92."), CR_EUNSUPPORTED, "(NEWOBJ_EX): makes an object of a class" },
    { TEXT("(ccollections\nOrderedDict\no."), CR_EUNSUPPORTED, "(OBJ): makes an object of a class" },
    { TEXT("(icollections\nOrderedDict\n."), CR_EUNSUPPORTED, "(INST): makes an object of a class" },
    { TEXT("N)R."), CR_EFORMAT, "calls None" },
    { TEXT("ctorch\nfloat32\n)R."), CR_EFORMAT, "calls a dtype" },
    { TEXT("ctorch\nTensor\n)R."), CR_EUNSUPPORTED, "calls torch.Tensor, which may only be mentioned" },
    { TEXT("ctorch\nFloatStorage\n)R."), CR_EUNSUPPORTED, "calls torch.FloatStorage" },
    { TEXT("cbuiltins\nlist\n)R."), CR_EUNSUPPORTED, "calls builtins.list" },
    { TEXT("]}b."), CR_EUNSUPPORTED, "sets attributes of a list" },
    { TEXT("ccollections\nOrderedDict\n)RK\x01"
           "b."),
      CR_EFORMAT, "the attributes are an integer, expected a dict" },
    { TEXT("\x82\x01."), CR_EUNSUPPORTED, "(EXT1): names a class by a number" },
    { TEXT("\x84\x01\0\0\0."), CR_EUNSUPPORTED, "(EXT4): names a class by a number" },
    { TEXT("P123\n."), CR_EUNSUPPORTED, "(PERSID): a persistent id that is a text" },
    { TEXT("\x97."), CR_EUNSUPPORTED, "(NEXT_BUFFER): a mutable or out-of-band buffer" },
    { TEXT("\x96\x01\0\0\0\0\0\0\0x."), CR_EUNSUPPORTED, "(BYTEARRAY8): a mutable" },
    { TEXT("cbuiltins\nset\n(]tRq\0(K\x01\x90h\0."), CR_OK, "" },
    { TEXT("cbuiltins\nset\n((K\x01ttR(K\x02\x90."), CR_EFORMAT, "a set that was made whole cannot grow" },
    { TEXT("cbuiltins\nset\n(K\x01tR."), CR_EFORMAT, "got an integer, expected a list" },
    { TEXT("cbuiltins\ncomplex\n(NNtR."), CR_EFORMAT, "something else than two numbers" },
    { TEXT("c_codecs\nencode\n(U\x01"
           "aU\x04"
           "utf8tR."),
      CR_EUNSUPPORTED, "another encoding than latin1" },
    { TEXT("c_codecs\nencode\n(U\x03\xe2\x82\xacU\x06latin1tR."), CR_EFORMAT, "a letter that latin1 does not have" },
    { TEXT("ctorch\nSize\n((NttR."), CR_EFORMAT, "a torch.Size holds None" },
    { TEXT("ctorch\ndevice\n(K\x01tR."), CR_EFORMAT, "the type is no short text" },
    { TEXT("ctorch\ndevice\n(U\x03"
           "cpuM\0\x10tR."),
      CR_EFORMAT, "a device with the index 4096" },
    { TEXT("ctorch.serialization\n_get_layout\n(U\x05"
           "torchtR."),
      CR_EFORMAT, "'torch' is no layout" },
    { TEXT("ccollections\ndefaultdict\n(ccollections\nOrderedDict\ntR."), CR_EUNSUPPORTED,
      "not a plain builtin class" },
    { TEXT("ccollections\ndeque\n((K\x01ttR."), CR_EFORMAT, "not called with an empty tuple" },
    { TEXT("ccollections\nCounter\n(]tR."), CR_EFORMAT, "the counts" },
    { TEXT("ccollections\nCounter\n(}(K\x01K\x02utR(K\x03K\x04u."), CR_EFORMAT, "made whole cannot grow" },
    /* storages and tensors */
    { TEXT("NQ."), CR_EUNSUPPORTED, "a persistent id that is not ('storage', class, key, device, numel)" },
    { TEXT("(U\x06moduleNNNNtQ."), CR_EUNSUPPORTED, "a persistent id that is not" },
    { TEXT("(U\x07storageNU\x01"
           "0U\x03"
           "cpuK\x01tQ."),
      CR_EFORMAT, "a storage whose class is none" },
    { TEXT("(U\x07storagectorch\nTensor\nU\x01"
           "0U\x03"
           "cpuK\x01tQ."),
      CR_EFORMAT, "a storage whose class is none" },
    { TEXT("(U\x07storagectorch\nQInt8Storage\nU\x01"
           "0U\x03"
           "cpuK\x01tQ."),
      CR_EUNSUPPORTED, "torch.QInt8Storage" },
    { TEXT("(U\x07storagectorch\nFloatStorage\nK\0U\x03"
           "cpuK\x01tQ."),
      CR_EFORMAT, "a storage whose key is no text" },
    { TEXT("(U\x07storagectorch\nFloatStorage\nU\x01"
           "0NK\x01tQ."),
      CR_EFORMAT, "storage '0': the device is no text" },
    { TEXT("(U\x07storagectorch\nFloatStorage\nU\x01"
           "0U\x03"
           "cpuI-1\ntQ."),
      CR_EFORMAT, "the length is no integer from 0 up" },
    { TEXT("(U\x07storagectorch\nFloatStorage\nU\x01"
           "0U\x03"
           "cpuI9223372036854775807\ntQ."),
      CR_EFORMAT, "storage '0' of 9223372036854775807 elements" },
    { TEXT("(" FLOATS "(U\x07storagectorch\nFloatStorage\nU\x01"
           "0U\x03"
           "cpuK\x07tQt."),
      CR_EFORMAT, "storage '0' is described twice" },
    { TEXT(V2 "(NK\0))" HOOKS "tR."), CR_EFORMAT, "the storage is None, expected a storage" },
    { TEXT(V2 "(" FLOATS "K\0(K\x01t(K\x01ttR."), CR_EFORMAT, "got 4 arguments, expected 6 to 7" },
    { TEXT(V2 "(" FLOATS "N(K\x01t(K\x01t" HOOKS "tR."), CR_EFORMAT, "the offset is None" },
    { TEXT(V2 "(" FLOATS "I-1\n(K\x01t(K\x01t" HOOKS "tR."), CR_EFORMAT, "a tensor with the offset -1" },
    { TEXT(V2 "(" FLOATS "K\0(K\x07t(K\x01t" HOOKS "tR."), CR_EFORMAT,
      "a tensor reaches to byte 28 of storage '0', which has 24" },
    { TEXT(V2 "(" FLOATS "K\x01(K\x06t(K\x01t" HOOKS "tR."), CR_EFORMAT, "reaches to byte 28" },
    { TEXT(V2 "(" FLOATS "K\0(K\x02K\x03t(K\x04K\x01t" HOOKS "tR."), CR_EFORMAT, "reaches to byte 28" },
    { TEXT(V2 "(" FLOATS "K\0(K\x06t(t" HOOKS "tR."), CR_EFORMAT, "a tensor of 1 sizes and 0 strides" },
    { TEXT(V2 "(" FLOATS "K\0(I-1\nt(K\x01t" HOOKS "tR."), CR_EFORMAT,
      "entry 0 of the sizes is not an integer from 0 up" },
    { TEXT(V2 "(" FLOATS "K\0(K\x02t(I-1\nt" HOOKS "tR."), CR_EFORMAT,
      "entry 0 of the strides is not an integer from 0 up" },
    { TEXT(V2 "(" FLOATS "K\0(NNt(NNt" HOOKS "tR."), CR_EFORMAT, "entry 0 of the sizes" },
    { TEXT(V2 "(" FLOATS "K\0NN" HOOKS "tR."), CR_EFORMAT, "sizes is None, expected a tuple" },
    { TEXT(V2 "(" FLOATS "K\0(I9223372036854775807\nI9223372036854775807\nt(I9223372036854775807\nK\x01t" HOOKS "tR."),
      CR_EFORMAT, "whose extent overflows" },
    { TEXT(V2 "(" FLOATS "K\0(I9223372036854775807\nK\x02t(K\0K\0t" HOOKS "tR."), CR_EFORMAT,
      "more than 2^63 elements" },
    { TEXT(V2 "(" FLOATS "K\0("
                         "K\x01K\x01K\x01K\x01K\x01K\x01K\x01K\x01K\x01K\x01K\x01K\x01K\x01K\x01K\x01K\x01K\x01t)" HOOKS
              "tR."),
      CR_EUNSUPPORTED, "a tensor of 17 dimensions, the limit is 16" },
    { TEXT(V2 "(" FLOATS "K\0))N)tR."), CR_EFORMAT, "requires_grad is None, expected a bool" },
    { TEXT(V2 "(" FLOATS "K\0))\x89}K\x01Ns"
              "tR."),
      CR_EUNSUPPORTED, "a tensor with backward hooks" },
    { TEXT(V2 "(" FLOATS "K\0))" HOOKS "}U\x03"
              "foo\x88stR."),
      CR_EUNSUPPORTED, "tensor metadata 'foo'" },
    { TEXT(V2 "((U\x07storagectorch.storage\nUntypedStorage\nU\x01"
              "0U\x03"
              "cpuK\x06tQK\0))" HOOKS "tR."),
      CR_EFORMAT, "storage '0' is untyped" },
    { TEXT("ctorch._utils\n_rebuild_tensor_v3\n(" FLOATS "K\0))" HOOKS "NtR."), CR_EFORMAT, "the dtype is None" },
    { TEXT("ctorch._utils\n_rebuild_tensor_v3\n(" FLOATS "K\0(K\x06t(K\x01t" HOOKS "ctorch\nfloat64\ntR."), CR_EFORMAT,
      "reaches to byte 48" },
    { TEXT("ctorch._utils\n_rebuild_parameter\n(N\x88)tR."), CR_EFORMAT, "the data is None, expected a tensor" },
    { TEXT("ctorch._tensor\n_rebuild_from_type_v2\n(NNNNtR."), CR_EUNSUPPORTED,
      "rebuilds something else than a plain tensor" },
    { TEXT("ctorch._tensor\n_rebuild_from_type_v2\nq\0(h\0NNNtR."), CR_EUNSUPPORTED, "rebuilds something else" },
    { TEXT("ctorch._tensor\n_rebuild_from_type_v2\n(" V2 "cbuiltins\nlist\n)NtR."), CR_EUNSUPPORTED,
      "something else than a Tensor or Parameter" },
};

static void errors(void) {
    for (size_t i = 0; i < CR_COUNT(bad); i++) {
        cr_arena arena;
        const cr_pickle *p = NULL;
        char *copy = malloc(bad[i].size ? bad[i].size : 1); /* exactly as long: a sanitizer sees reads past the end */
        memcpy(copy, bad[i].data, bad[i].size);
        cr_arena_init(&arena);
        cr_status status = cr_pickle_parse(&arena, copy, bad[i].size, &p);
        if (status != bad[i].code || (status && !strstr(cr_error_message(), bad[i].part)))
            CHECK_FAILED("row %zu gave %s \"%s\", expected %s \"%s\"", i, cr_status_name(status),
                         status ? cr_error_message() : "", cr_status_name(bad[i].code), bad[i].part);
        else CHECK(!status == !!p);
        cr_arena_dispose(&arena);
        free(copy);
    }
}

/* Every prefix of a good pickle is an error, never a crash, and so is every pickle with one byte changed to another. */
static void damaged(void) {
    for (size_t i = 0; i < CR_COUNT(good); i++) {
        size_t size = good[i].size, step = 1 + size / 200;
        char *copy = malloc(size);
        for (size_t n = 0; n < size; n += step) {
            cr_arena arena;
            const cr_pickle *p;
            cr_arena_init(&arena);
            memcpy(copy, good[i].data, n);
            CHECK(cr_pickle_parse(&arena, copy, n, &p) == CR_EFORMAT);
            cr_arena_dispose(&arena);
            cr_arena_init(&arena);
            memcpy(copy, good[i].data, size);
            copy[n] = (char)(copy[n] ^ 0x55);
            cr_status status = cr_pickle_parse(&arena, copy, size, &p);
            CHECK(status == CR_OK || status == CR_EFORMAT || status == CR_EUNSUPPORTED);
            cr_arena_dispose(&arena);
        }
        free(copy);
    }
}

/* ---- bounds ---- */

typedef struct bytes { char *at; size_t n, cap; } bytes;
static void add(bytes *b, const char *data, size_t n) {
    if (b->n + n > b->cap) b->at = realloc(b->at, b->cap = 2 * (b->n + n));
    memcpy(b->at + b->n, data, n);
    b->n += n;
}
#define ADD(b, literal) add(b, literal, sizeof literal - 1)

static void check_bytes(bytes *b, cr_status code, const char *part) {
    cr_arena arena;
    const cr_pickle *p;
    cr_arena_init(&arena);
    cr_status status = cr_pickle_parse(&arena, b->at, b->n, &p);
    if (code) CHECK_ERROR(status, code, part);
    else CHECK_OK(status);
    cr_arena_dispose(&arena);
    free(b->at);
    *b = (bytes){0};
}

static void bounds(void) {
    bytes b = {0};
    /* nesting: as deep as allowed, one more, and far more */
    for (int depth = CR_PICKLE_DEPTH; depth <= 20000; depth = depth == CR_PICKLE_DEPTH ? depth + 1 : depth * 70) {
        char *opens = malloc((size_t)depth);
        memset(opens, ']', (size_t)depth);
        add(&b, opens, (size_t)depth);
        memset(opens, 'a', (size_t)depth);
        add(&b, opens, (size_t)depth - 1);
        free(opens);
        ADD(&b, ".");
        check_bytes(&b, depth == CR_PICKLE_DEPTH ? CR_OK : CR_EFORMAT, "nested deeper than 200");
    }
    /* depth through shared parts: each half is fine alone */
    for (int i = 0; i < 120; i++) ADD(&b, "(");
    for (int i = 0; i < 120; i++) ADD(&b, "t");
    ADD(&b, "q\0" "0");
    for (int i = 0; i < 120; i++) ADD(&b, "(");
    ADD(&b, "h\0");
    for (int i = 0; i < 120; i++) ADD(&b, "t");
    ADD(&b, ".");
    check_bytes(&b, CR_EFORMAT, "nested deeper than 200");
    /* a bomb: each tuple holds the one before it twice */
    ADD(&b, ")");
    for (int i = 0; i < 60; i++) ADD(&b, "2\x86");
    ADD(&b, ".");
    check_bytes(&b, CR_EFORMAT, "shared parts make the value larger than a pickle of 122 bytes may be");
    /* one long text, many times: as list items, and encoded */
    char *text = calloc(1, 100000);
    memset(text, 'x', 100000);
    ADD(&b, "X\xa0\x86\x01\0");
    add(&b, text, 100000);
    ADD(&b, "q\0" "0](");
    for (int i = 0; i < 100000; i++) ADD(&b, "h\0");
    ADD(&b, "e.");
    check_bytes(&b, CR_EFORMAT, "shared parts");
    ADD(&b, "X\xa0\x86\x01\0");
    add(&b, text, 100000);
    ADD(&b, "U\x06latin1\x86q\0" "0c_codecs\nencode\nq\x01" "0");
    for (int i = 0; i < 1000; i++) ADD(&b, "h\x01h\0R0");
    ADD(&b, "N.");
    check_bytes(&b, CR_EFORMAT, "one text is encoded many times over");
    free(text);
    /* sets that borrow one long list cost nothing each */
    ADD(&b, "](");
    for (int i = 0; i < 20000; i++) {
        char number[3] = {'M', (char)i, (char)(i >> 8)};
        add(&b, number, 3);
    }
    ADD(&b, "e\x85q\0" "0cbuiltins\nset\nq\x01" "0");
    for (int i = 0; i < 20000; i++) ADD(&b, "h\x01h\0R0");
    ADD(&b, "N.");
    check_bytes(&b, CR_OK, "");
    CHECK_ERROR(cr_pickle_parse(NULL, "N.", (size_t)CR_PICKLE_LIMIT + 1, NULL), CR_EFORMAT, "the limit is");
}

/* ---- out of memory ---- */

static cr_status parse_and_print(void *arg) {
    (void)arg;
    cr_arena arena;
    cr_str out = {0};
    const cr_pickle *p;
    cr_status status = CR_OK;
    cr_arena_init(&arena);
    for (size_t i = 2; i < CR_COUNT(good) && !status; i += i < 22 ? 7 : 1) {
        status = cr_pickle_parse(&arena, good[i].data, good[i].size, &p);
        if (!status) {
            cr_pickle_print(p, &out);
            status = cr_str_status(&out);
        }
    }
    cr_str_dispose(&out);
    cr_arena_dispose(&arena);
    return status;
}
static void out_of_memory(void) { CHECK_OOM_SWEEP(parse_and_print, NULL); }

int main(void) {
    RUN(values);
    RUN(opcodes_by_hand);
    RUN(find);
    RUN(errors);
    RUN(damaged);
    RUN(bounds);
    RUN(out_of_memory);
    return check_summary();
}
