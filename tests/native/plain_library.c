/* An ordinary C library, as the tests of load_library() use it. Nothing of mojoview's is in it. */
#include <stddef.h>
#include <stdint.h>

int a_variable = 3;

double dot(size_t n, const double *x, const double *y) {
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += x[i] * y[i];
    return sum;
}

void scale(double a, const double *x, int32_t n, double *y) {
    for (int32_t i = 0; i < n; i++)
        y[i] = a * x[i];
}

/* Says what it received: 14 arguments, most of them on the stack, sizes among them. */
void received(size_t n, int8_t a, double b, ptrdiff_t rows, int c, float d, size_t cols, const double *x,
              const double *table, int64_t e, uint16_t f, double g, int64_t out_n, double *out) {
    const double all[] = {(double)n, a, b, (double)rows, c, d, (double)cols, x[n - 1], table[rows * cols - 1],
                          (double)e, f, g, (double)out_n};
    for (int64_t i = 0; i < 13 && i < out_n; i++)
        out[i] = all[i];
}

int32_t check(const double *x, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (x[i] < 0)
            return 14;
    return 0;
}

uint8_t narrow(uint8_t n, const int16_t *x) { return n; }

void mean_and_size(const double *x, size_t n, double out[2]) {
    out[0] = 0;
    for (size_t i = 0; i < n; i++)
        out[0] += x[i] / (double)n;
    out[1] = (double)n;
}

float half(float x) { return x / 2; }

double plus_user(double x, void *user) { return x + (user ? *(double *)user : -1); }
