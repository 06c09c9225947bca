/* device.c: device names. */
#include "tensor/tensor.h"

static const struct { const char *name; cr_device_type type; } kinds[] = {
    { "cpu", CR_CPU }, { "cuda", CR_CUDA }, { "meta", CR_META_DEVICE },
};

cr_status cr_device_parse(const char *text, cr_device *out) {
    size_t n = strcspn(text, ":");
    for (size_t i = 0; i < CR_COUNT(kinds); i++) {
        if (strlen(kinds[i].name) != n || strncmp(text, kinds[i].name, n)) continue;
        int index = -1;
        if (text[n]) { /* digits without a leading zero */
            const char *digits = text + n + 1;
            size_t count = strspn(digits, "0123456789");
            if (!count || digits[count] || (digits[0] == '0' && count > 1) || count > 3)
                return CR_FAIL(CR_ERUNTIME, "device '%s': expected %s or %s:INDEX", text, kinds[i].name, kinds[i].name);
            index = 0;
            for (size_t k = 0; k < count; k++) index = index * 10 + (digits[k] - '0');
            if (index > INT8_MAX) return CR_FAIL(CR_ERUNTIME, "device '%s': the index is over %d", text, INT8_MAX);
        }
        *out = (cr_device){ (int8_t)kinds[i].type, (int8_t)index };
        return CR_OK;
    }
    return CR_FAIL(CR_ERUNTIME, "device '%s': expected cpu, cuda or meta, optionally followed by :INDEX", text);
}

void cr_device_print(cr_device d, cr_str *out) {
    const char *name = "unknown";
    for (size_t i = 0; i < CR_COUNT(kinds); i++)
        if ((int)kinds[i].type == d.type) name = kinds[i].name;
    cr_str_add(out, name);
    if (d.index >= 0) cr_str_addf(out, ":%d", d.index);
}
