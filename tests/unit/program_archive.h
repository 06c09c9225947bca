/* program_archive.h: the program of program_text.h as an archive in memory. */
#ifndef PROGRAM_ARCHIVE_H
#define PROGRAM_ARCHIVE_H

#include "export/internal.h"
#include "program_text.h"
#include "zip_maker.h"

static const char *const member_names[] = { "m/models/model.json",       "m/data/weights/model_weights_config.json",
                                            "m/data/weights/weight_0",   "m/data/weights/weight_1",
                                            "m/data/weights/weight_2",   "m/data/constants/model_constants_config.json",
                                            "m/data/constants/tensor_0", "m/byteorder",
                                            "m/archive_format" };

typedef struct archive { char *texts[3]; maker zip; } archive;

/* The program with `from` replaced by `to` in its text (NULL: as it is). */
static inline archive archive_make(const char *from, const char *to) {
    archive a = { { NULL }, { 0 } };
    char *text = program_json(), *changed = from ? replaced(text, from, to) : NULL;
    if (from) CHECK(changed != NULL);
    a.texts[0] = as_json(changed ? changed : text);
    a.texts[1] = as_json(weights_text);
    a.texts[2] = as_json(constants_text);
    free(text);
    free(changed);
    maker_entry entries[] = {
        { member_names[0], a.texts[0], strlen(a.texts[0]), 0 },
        { member_names[1], a.texts[1], strlen(a.texts[1]), 0 },
        { member_names[2], (const char *)weight_data, sizeof weight_data, 0 },
        { member_names[3], (const char *)bias_data, sizeof bias_data, MAKER_DEFLATED },
        { member_names[4], (const char *)buffer_data, sizeof buffer_data, 0 },
        { member_names[5], a.texts[2], strlen(a.texts[2]), 0 },
        { member_names[6], (const char *)constant_data, sizeof constant_data, 0 },
        { member_names[7], "little", 6, 0 },
        { member_names[8], "pt2", 3, 0 },
    };
    a.zip = maker_build(entries, CR_COUNT(entries), false, "");
    return a;
}

static inline void archive_free(archive *a) {
    for (int i = 0; i < 3; i++) free(a->texts[i]);
    free(a->zip.at);
}

static inline cr_status load(const archive *a, int flags, cr_program **out) {
    cr_zip *zip = NULL;
    CR_TRY(cr_zip_open_memory(a->zip.at, a->zip.n, NULL, &zip));
    cr_status status = cr_program_load_zip(zip, NULL, flags, out);
    cr_zip_release(zip);
    return status;
}

#endif
