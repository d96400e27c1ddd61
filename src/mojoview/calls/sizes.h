/* Sizes that a caller does not give: how many elements arrays have, or how long an axis of theirs is. They are checked
 * against each other and put among the scalars of a foreign call. */
#ifndef MOJOVIEW_SIZES_H
#define MOJOVIEW_SIZES_H

#include "checks.h"

typedef struct mv_size {
    int64_t value; /* what the extents must be; -1: what the first of them is */
    int64_t most;  /* the largest that the parameter holds */
    int place;     /* among the scalars; -1: not passed */
    int count;     /* extents that must agree */
    uint8_t array[MV_MAX_PARAMS];
    int8_t axis[MV_MAX_PARAMS]; /* -1: all elements */
} mv_size;

typedef struct mv_sizes {
    int count, passed;
    mv_size size[MV_MAX_PARAMS];
} mv_sizes;

/* What is wrong with the sizes of a call: which of them, at which of its extents, and the two numbers. */
typedef struct mv_misfit {
    int size, extent;
    int64_t expected, came;
} mv_misfit;

/* Spreads `given` scalars and puts the sizes between them. MV_E_SHAPE where extents differ; MV_E_OVERFLOW where one does
 * not fit its parameter: then nothing has been written. */
static inline int32_t mv_fill_sizes(const mv_sizes *sizes, mv_desc *const *arrays, mv_value *scalars, int given,
                                    mv_misfit *misfit) {
    int64_t values[MV_MAX_PARAMS];
    for (int i = 0; i < sizes->count; i++) {
        const mv_size *s = &sizes->size[i];
        values[i] = s->value;
        for (int k = 0; k < s->count; k++) {
            const mv_desc *d = arrays[s->array[k]];
            const int64_t came = s->axis[k] < 0 ? d->size : d->shape[s->axis[k]];
            if (values[i] < 0)
                values[i] = came;
            misfit->size = i, misfit->extent = k, misfit->expected = values[i], misfit->came = came;
            if (came != values[i])
                return MV_E_SHAPE;
            if (came > s->most)
                return MV_E_OVERFLOW;
        }
    }
    for (int place = given + sizes->passed - 1; place >= 0; place--) {
        int found = -1;
        for (int i = 0; i < sizes->count; i++)
            if (sizes->size[i].place == place)
                found = i;
        if (found >= 0)
            scalars[place].i64 = values[found];
        else
            scalars[place] = scalars[--given];
    }
    return MV_OK;
}

#endif
