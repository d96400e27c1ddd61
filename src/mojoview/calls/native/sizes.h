/* Sizes that the call fills in: the number of elements of arrays, or the length of an axis. They are checked against
 * each other and inserted among the scalars of a foreign call. */
#ifndef MOJOVIEW_SIZES_H
#define MOJOVIEW_SIZES_H

#include "checks.h"

typedef struct mv_size {
    int64_t value; /* the required extent; -1: that of the first array */
    int64_t most;  /* the largest value of the parameter's type */
    int place;     /* index among the scalars; -1: not passed */
    int count;     /* extents that must agree */
    uint8_t array[MV_MAX_PARAMS];
    int8_t axis[MV_MAX_PARAMS]; /* -1: all elements */
} mv_size;

typedef struct mv_sizes {
    int count, passed;
    mv_size size[MV_MAX_PARAMS];
} mv_sizes;

/* The size that does not fit, at which of its extents, and the two numbers. */
typedef struct mv_misfit {
    int size, extent;
    int64_t expected, got;
} mv_misfit;

/* Inserts the sizes between the `given` scalars. Returns MV_E_SHAPE if extents differ and MV_E_OVERFLOW if one does not
 * fit its parameter; nothing is written then. */
static inline int32_t mv_fill_sizes(const mv_sizes *sizes, mv_desc *const *arrays, mv_value *scalars, int given,
                                    mv_misfit *misfit) {
    int64_t values[MV_MAX_PARAMS];
    for (int i = 0; i < sizes->count; i++) {
        const mv_size *s = &sizes->size[i];
        values[i] = s->value;
        for (int k = 0; k < s->count; k++) {
            const mv_desc *d = arrays[s->array[k]];
            const int64_t got = s->axis[k] < 0 ? d->size : d->shape[s->axis[k]];
            if (values[i] < 0)
                values[i] = got;
            misfit->size = i, misfit->extent = k, misfit->expected = values[i], misfit->got = got;
            if (got != values[i])
                return MV_E_SHAPE;
            if (got > s->most)
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
