/* The functions of element_loops.py in C; see there for what they do. Arguments are contiguous buffers. */

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>
#include <string.h>

/* `sort_into_bins` counts bins in 16 bits. */
#define MAX_BINS (1 << 16)

/* Gets `count` buffers, the writable ones as a bit mask. Returns 0, with an exception, if one is not contiguous. */
static int get_buffers(PyObject *const *args, Py_buffer *buffers, int count, unsigned writable)
{
    for (int i = 0; i < count; i++) {
        int flags = PyBUF_ND | (writable >> i & 1 ? PyBUF_WRITABLE : 0);
        if (PyObject_GetBuffer(args[i], &buffers[i], flags) < 0) {
            while (i--)
                PyBuffer_Release(&buffers[i]);
            return 0;
        }
    }
    return 1;
}

static void release_buffers(Py_buffer *buffers, int count)
{
    for (int i = 0; i < count; i++)
        PyBuffer_Release(&buffers[i]);
}

static int has_arguments(const char *name, Py_ssize_t given, Py_ssize_t expected)
{
    if (given != expected)
        PyErr_Format(PyExc_TypeError, "%s takes %zd arguments, not %zd", name, expected, given);
    return given == expected;
}

/* Elements of a view can lie at any byte: `memcpy` of a constant size is one move. */

/* Row numbers of 4 and 8 bytes; the next has none, so the rows are 0, 1, 2, ... */
static inline uint64_t row_of_4(const char *rows, Py_ssize_t i)
{
    int32_t row;
    memcpy(&row, rows + i * 4, 4);
    return (uint64_t)row;
}

static inline uint64_t row_of_8(const char *rows, Py_ssize_t i)
{
    uint64_t row;
    memcpy(&row, rows + i * 8, 8);
    return row;
}

static inline uint64_t row_of_0(const char *rows, Py_ssize_t i)
{
    (void)rows;
    return (uint64_t)i;
}

#if defined(__GNUC__)
#define PREFETCH(address) __builtin_prefetch((const void *)(address), 1)
#else
#define PREFETCH(address) ((void)(address))
#endif

/* Stores to an array that the second-level cache holds do not wait for it. */
#define CACHED_BYTES (1 << 19)
/* How many rows before its store a row is fetched: about what a latency of 100 ns takes. */
#define AHEAD 32

/* to[rows[i]] = origin[origin_rows[i]]. Returns the index of the first row outside `to` or `origin`, or `count`. */
#define PUT_EACH(ROW_BYTES, ORIGIN_ROW_BYTES, BYTES)                                                                   \
    for (Py_ssize_t i = 0; i < count; i++) {                                                                           \
        if (i < fetched)                                                                                               \
            PREFETCH((uintptr_t)to + row_of_##ROW_BYTES(rows, i + AHEAD) * (BYTES));                                   \
        const uint64_t row = row_of_##ROW_BYTES(rows, i), from = row_of_##ORIGIN_ROW_BYTES(origin_rows, i);            \
        if (row >= room || from >= held)                                                                               \
            return i;                                                                                                  \
        memcpy(to + row * (BYTES), origin + from * (BYTES), BYTES);                                                    \
    }                                                                                                                  \
    return count;

#define DEFINE_PUT(ROW_BYTES, ORIGIN_ROW_BYTES)                                                                        \
    static Py_ssize_t put_##ROW_BYTES##_##ORIGIN_ROW_BYTES(char *to, uint64_t room, const char *rows,                  \
                                                           const char *origin, uint64_t held,                          \
                                                           const char *origin_rows, Py_ssize_t count,                  \
                                                           Py_ssize_t row_bytes)                                       \
    {                                                                                                                  \
        const Py_ssize_t fetched = room > CACHED_BYTES / row_bytes ? count - AHEAD : 0;                                \
        switch (row_bytes) {                                                                                           \
        case 1:                                                                                                        \
            PUT_EACH(ROW_BYTES, ORIGIN_ROW_BYTES, 1)                                                                   \
        case 2:                                                                                                        \
            PUT_EACH(ROW_BYTES, ORIGIN_ROW_BYTES, 2)                                                                   \
        case 4:                                                                                                        \
            PUT_EACH(ROW_BYTES, ORIGIN_ROW_BYTES, 4)                                                                   \
        case 8:                                                                                                        \
            PUT_EACH(ROW_BYTES, ORIGIN_ROW_BYTES, 8)                                                                   \
        default:                                                                                                       \
            PUT_EACH(ROW_BYTES, ORIGIN_ROW_BYTES, row_bytes)                                                           \
        }                                                                                                              \
    }

DEFINE_PUT(4, 0)
DEFINE_PUT(4, 4)
DEFINE_PUT(4, 8)
DEFINE_PUT(8, 0)
DEFINE_PUT(8, 4)
DEFINE_PUT(8, 8)

/* scatter_rows(to, rows, origin, origin_rows) */
static PyObject *scatter_rows(PyObject *module, PyObject *const *args, Py_ssize_t given)
{
    if (!has_arguments("scatter_rows", given, 4))
        return NULL;
    const int in_order = args[3] == Py_None;
    PyObject *arrays[4] = {args[0], args[1], args[2], args[in_order ? 1 : 3]};
    Py_buffer buffers[4], *to = &buffers[0], *rows = &buffers[1], *origin = &buffers[2], *origin_rows = &buffers[3];
    if (!get_buffers(arrays, buffers, 4, 1))
        return NULL;
    const Py_ssize_t count = rows->len / rows->itemsize, held = origin->ndim ? origin->shape[0] : 1;
    const Py_ssize_t row_bytes = held ? origin->len / held : 1, room = row_bytes ? to->len / row_bytes : 0;
    Py_ssize_t stored = count;
#define PUT(ROW_BYTES, ORIGIN_ROW_BYTES)                                                                               \
    stored = put_##ROW_BYTES##_##ORIGIN_ROW_BYTES(to->buf, room, rows->buf, origin->buf, held, origin_rows->buf,       \
                                                  count, row_bytes)
#define PUT_FROM(ORIGIN_ROW_BYTES)                                                                                     \
    if (rows->itemsize == 4)                                                                                           \
        PUT(4, ORIGIN_ROW_BYTES);                                                                                      \
    else                                                                                                               \
        PUT(8, ORIGIN_ROW_BYTES)
    if ((rows->itemsize != 4 && rows->itemsize != 8) || (origin_rows->itemsize != 4 && origin_rows->itemsize != 8))
        PyErr_SetString(PyExc_TypeError, "scatter_rows takes row numbers of 4 or 8 bytes");
    else if (origin_rows->len / origin_rows->itemsize != count)
        PyErr_SetString(PyExc_TypeError, "scatter_rows takes one row of the origin for each row");
    else if (row_bytes) {
        if (in_order) {
            PUT_FROM(0);
        } else if (origin_rows->itemsize == 4) {
            PUT_FROM(4);
        } else {
            PUT_FROM(8);
        }
        if (stored < count)
            PyErr_Format(PyExc_IndexError, "the row at index %zd is outside the %zd rows, or that of the origin the %zd",
                         stored, room, held);
    }
    release_buffers(buffers, 4);
    if (PyErr_Occurred())
        return NULL;
    Py_RETURN_NONE;
}

/* Each value is stored, and kept if it is selected: this needs no branch. */
#define KEEP_EACH(BYTES)                                                                                               \
    for (Py_ssize_t i = 0; found < count; i++) {                                                                       \
        memcpy(kept + found * (BYTES), from + i * (BYTES), BYTES);                                                     \
        found += selects[i] != 0;                                                                                      \
    }                                                                                                                  \
    break;

/* keep_selected(values, selected, to) */
static PyObject *keep_selected(PyObject *module, PyObject *const *args, Py_ssize_t given)
{
    Py_buffer buffers[3], *values = &buffers[0], *selected = &buffers[1], *to = &buffers[2];
    if (!has_arguments("keep_selected", given, 3) || !get_buffers(args, buffers, 3, 4))
        return NULL;
    const char *from = values->buf, *selects = selected->buf;
    char *kept = to->buf;
    const Py_ssize_t bytes = values->itemsize;
    Py_ssize_t count = 0, found = 0;
    for (Py_ssize_t i = 0; i < selected->len; i++)
        count += selects[i] != 0;
    if (selected->itemsize != 1 || values->len != selected->len * bytes || to->itemsize != bytes ||
        to->len < count * bytes)
        PyErr_SetString(PyExc_TypeError, "keep_selected: the arrays do not fit together");
    else
        switch (bytes) {
        case 1:
            KEEP_EACH(1)
        case 2:
            KEEP_EACH(2)
        case 4:
            KEEP_EACH(4)
        case 8:
            KEEP_EACH(8)
        default:
            KEEP_EACH(bytes)
        }
    release_buffers(buffers, 3);
    return PyErr_Occurred() ? NULL : PyLong_FromSsize_t(count);
}

/* Gets the begins and lengths of runs. Returns 0, with an exception, unless they are int64 of equal size. */
static int get_runs(const char *name, PyObject *const *args, Py_buffer *runs)
{
    if (!get_buffers(args, runs, 2, 0))
        return 0;
    if (runs[0].itemsize == 8 && runs[1].itemsize == 8 && runs[0].len == runs[1].len)
        return 1;
    PyErr_Format(PyExc_TypeError, "%s takes begins and lengths of int64, one length for each begin", name);
    release_buffers(runs, 2);
    return 0;
}

/* rows_of_runs(begins, lengths) */
static PyObject *rows_of_runs(PyObject *module, PyObject *const *args, Py_ssize_t given)
{
    Py_buffer runs[2];
    if (!has_arguments("rows_of_runs", given, 2) || !get_runs("rows_of_runs", args, runs))
        return NULL;
    const int64_t *begins = runs[0].buf, *lengths = runs[1].buf;
    int64_t end = INT64_MIN;
    uint64_t rows = 0;
    for (Py_ssize_t i = 0; i < runs[0].len / 8; i++) {
        if (lengths[i] <= 0 || begins[i] < end) {
            rows = 0;
            break;
        }
        end = begins[i] > INT64_MAX - lengths[i] ? INT64_MAX : begins[i] + lengths[i];
        rows += lengths[i];
    }
    release_buffers(runs, 2);
    return PyLong_FromUnsignedLongLong(rows);
}

/* units_of_runs(begins, lengths, base, row_bytes, unit_bytes) */
static PyObject *units_of_runs(PyObject *module, PyObject *const *args, Py_ssize_t given)
{
    Py_buffer runs[2];
    if (!has_arguments("units_of_runs", given, 5))
        return NULL;
    const int64_t base = PyLong_AsLongLong(args[2]), row_bytes = PyLong_AsLongLong(args[3]),
                  unit_bytes = PyLong_AsLongLong(args[4]);
    if (PyErr_Occurred() || !get_runs("units_of_runs", args, runs))
        return NULL;
    const int64_t *begins = runs[0].buf, *lengths = runs[1].buf;
    int64_t units = 0, whole = 0;
    for (Py_ssize_t i = 0; unit_bytes > 0 && i < runs[0].len / 8; i++) {
        int64_t first = base + begins[i] * row_bytes, last = first + lengths[i] * row_bytes;
        int64_t inside = last / unit_bytes - (first + unit_bytes - 1) / unit_bytes;
        units += (last + unit_bytes - 1) / unit_bytes - first / unit_bytes;
        whole += inside > 0 ? inside : 0;
    }
    release_buffers(runs, 2);
    return Py_BuildValue("LL", (long long)units, (long long)whole);
}

/* copy_runs(to, origin, begins, lengths) */
static PyObject *copy_runs(PyObject *module, PyObject *const *args, Py_ssize_t given)
{
    Py_buffer buffers[4], *to = &buffers[0], *origin = &buffers[1];
    if (!has_arguments("copy_runs", given, 4) || !get_buffers(args, buffers, 4, 1))
        return NULL;
    const int64_t *begins = buffers[2].buf, *lengths = buffers[3].buf;
    Py_ssize_t runs = buffers[2].len / 8;
    int64_t rows = origin->ndim ? origin->shape[0] : 1, row_bytes = rows ? origin->len / rows : 0;
    int64_t room = row_bytes ? to->len / row_bytes : 0;
    char *next = to->buf;
    if (buffers[2].itemsize != 8 || buffers[3].itemsize != 8 || buffers[3].len != buffers[2].len)
        PyErr_SetString(PyExc_TypeError, "copy_runs takes begins and lengths of int64, one length for each begin");
    else
        for (Py_ssize_t i = 0; i < runs; i++) {
            int64_t begin = begins[i], length = lengths[i];
            if (begin < 0 || length < 0 || length > room || begin > rows - length) {
                PyErr_Format(PyExc_ValueError, "run %zd exceeds the arrays", i);
                break;
            }
            memcpy(next, (const char *)origin->buf + begin * row_bytes, length * row_bytes);
            next += length * row_bytes;
            room -= length;
        }
    if (room && !PyErr_Occurred())
        PyErr_SetString(PyExc_ValueError, "the runs do not fill the array");
    release_buffers(buffers, 4);
    if (PyErr_Occurred())
        return NULL;
    Py_RETURN_NONE;
}

/* floor(number / size) by a multiplication with ceil(2^64 / size), which is exact for 32-bit numbers and much faster
   than a division: Lemire, Kaser, Kurz, "Faster remainder by direct computation", 2019. `multiplier` is 0 for size 1. */
static inline uint64_t quotient(uint32_t number, uint64_t multiplier)
{
    if (!multiplier)
        return number;
#ifdef __SIZEOF_INT128__
    return (uint64_t)(((unsigned __int128)multiplier * number) >> 64);
#else
    return ((multiplier >> 32) * number + (((multiplier & UINT32_MAX) * number) >> 32)) >> 32;
#endif
}

/* Stores each number and its value behind the earlier ones of its bin, which end at `ends`. */
#define PLACE(NUMBER, BYTES)                                                                                           \
    for (Py_ssize_t i = 0; i < count; i++) {                                                                           \
        int64_t to = ends[bin_of[i]]++;                                                                                \
        memcpy(&number, numbers + i * sizeof number, sizeof number);                                                   \
        /* The product is at most the number. */                                                                       \
        number -= (NUMBER)(bin_of[i] * narrow_size);                                                                   \
        memcpy(sorted_numbers + to * sizeof number, &number, sizeof number);                                           \
        memcpy(sorted_values + to * (BYTES), values + i * (BYTES), BYTES);                                             \
    }

/* The first pass also fetches the arrays that the second one stores to in as many places as there are bins, each line of
   64 B at least once for numbers and values of 4 B. */
#define NUMBERS_APART 16

/* Returns 0, without effect, for a number outside `limit`. `ends` are zeros, one for each bin; `bin_of` is scratch. */
#define DEFINE_SORT(NUMBER, QUOTIENT)                                                                                  \
    static int sort_##NUMBER(const char *numbers, const char *values, char *sorted_numbers, char *sorted_values,       \
                             Py_ssize_t count, Py_ssize_t value_bytes, int64_t *starts, Py_ssize_t bins,               \
                             uint64_t size, uint64_t limit, int64_t *ends, uint16_t *bin_of)                           \
    {                                                                                                                  \
        const uint64_t multiplier = UINT64_MAX / size + 1;                                                             \
        const NUMBER narrow_size = (NUMBER)size;                                                                       \
        NUMBER number;                                                                                                 \
        for (Py_ssize_t i = 0; i < count; i++) {                                                                       \
            memcpy(&number, numbers + i * sizeof number, sizeof number);                                               \
            if (number >= limit)                                                                                       \
                return 0;                                                                                              \
            bin_of[i] = (uint16_t)QUOTIENT(number);                                                                    \
            ends[bin_of[i]]++;                                                                                         \
            if (i % NUMBERS_APART == 0) {                                                                              \
                PREFETCH(sorted_numbers + i * sizeof number);                                                          \
                PREFETCH(sorted_values + i * value_bytes);                                                             \
            }                                                                                                          \
        }                                                                                                              \
        starts[0] = 0;                                                                                                 \
        for (Py_ssize_t bin = 0; bin < bins; bin++) {                                                                  \
            starts[bin + 1] = starts[bin] + ends[bin];                                                                 \
            ends[bin] = starts[bin];                                                                                   \
        }                                                                                                              \
        switch (value_bytes) {                                                                                         \
        case 1:                                                                                                        \
            PLACE(NUMBER, 1)                                                                                           \
            break;                                                                                                     \
        case 2:                                                                                                        \
            PLACE(NUMBER, 2)                                                                                           \
            break;                                                                                                     \
        case 4:                                                                                                        \
            PLACE(NUMBER, 4)                                                                                           \
            break;                                                                                                     \
        case 8:                                                                                                        \
            PLACE(NUMBER, 8)                                                                                           \
            break;                                                                                                     \
        default:                                                                                                       \
            PLACE(NUMBER, value_bytes)                                                                                 \
        }                                                                                                              \
        return 1;                                                                                                      \
    }

#define BY_MULTIPLICATION(number) quotient(number, multiplier)
#define BY_DIVISION(number) ((void)multiplier, (number) / size)

DEFINE_SORT(uint8_t, BY_MULTIPLICATION)
DEFINE_SORT(uint16_t, BY_MULTIPLICATION)
DEFINE_SORT(uint32_t, BY_MULTIPLICATION)
DEFINE_SORT(uint64_t, BY_DIVISION)

/* sort_into_bins(numbers, values, sorted_numbers, sorted_values, starts, size, limit) */
static PyObject *sort_into_bins(PyObject *module, PyObject *const *args, Py_ssize_t given)
{
    Py_buffer buffers[5], *numbers = &buffers[0], *values = &buffers[1], *sorted_numbers = &buffers[2],
                          *sorted_values = &buffers[3], *starts = &buffers[4];
    if (!has_arguments("sort_into_bins", given, 7))
        return NULL;
    const uint64_t size = PyLong_AsUnsignedLongLong(args[5]), limit = PyLong_AsUnsignedLongLong(args[6]);
    if (PyErr_Occurred() || !get_buffers(args, buffers, 5, 4 | 8 | 16))
        return NULL;
    const Py_ssize_t count = numbers->len / numbers->itemsize, bins = starts->len / 8 - 1;
    const Py_ssize_t value_bytes = count ? values->len / count : 0;
    int64_t *ends = PyMem_Calloc(bins > 0 ? bins : 1, sizeof *ends);
    uint16_t *bin_of = PyMem_Malloc((count ? count : 1) * sizeof *bin_of);
    int done = 0;
#define SORT(NUMBER)                                                                                                   \
    done = sort_##NUMBER(numbers->buf, values->buf, sorted_numbers->buf, sorted_values->buf, count, value_bytes,       \
                         starts->buf, bins, size, limit, ends, bin_of)
    if (!ends || !bin_of)
        PyErr_NoMemory();
    else if (starts->itemsize != 8 || bins < 1 || bins > MAX_BINS || size < 1 ||
             (limit && (limit - 1) / size >= (uint64_t)bins) || sorted_numbers->len != numbers->len ||
             sorted_numbers->itemsize != numbers->itemsize || sorted_values->len != values->len)
        PyErr_SetString(PyExc_TypeError, "sort_into_bins: the arrays, the size and the limit do not fit together");
    else
        switch (numbers->itemsize) {
        case 1:
            SORT(uint8_t);
            break;
        case 2:
            SORT(uint16_t);
            break;
        case 4:
            SORT(uint32_t);
            break;
        case 8:
            SORT(uint64_t);
            break;
        default:
            PyErr_Format(PyExc_TypeError, "sort_into_bins takes numbers of 1, 2, 4 or 8 bytes, not %zd",
                         numbers->itemsize);
        }
    PyMem_Free(bin_of);
    PyMem_Free(ends);
    release_buffers(buffers, 5);
    return PyErr_Occurred() ? NULL : PyBool_FromLong(done);
}

/* The rows of lookups whose values are all in their windows, and, if `selected` is given, the numbers of these lookups.
   Returns how many there are, or -1 for a value outside its axis. An axis is extent, start, stop and step. The compiler
   makes a loop of its own for a single column, and for lookups of which all are selected. */
#define DEFINE_RESOLVE(INDEX, ROW)                                                                                     \
    static inline Py_ssize_t any_##INDEX##_##ROW(const char *index, const int64_t *axes, const Py_ssize_t columns,     \
                                                 const int64_t *positions, uint64_t base, ROW *rows,                   \
                                                 int64_t *selected, Py_ssize_t count)                                  \
    {                                                                                                                  \
        Py_ssize_t found = 0;                                                                                          \
        int wrong = 0;                                                                                                 \
        for (Py_ssize_t i = 0; i < count; i++) {                                                                       \
            uint64_t row = base + (positions ? positions[i] : 0);                                                      \
            int inside = 1;                                                                                            \
            for (Py_ssize_t k = 0; k < columns; k++) {                                                                 \
                const uint64_t extent = axes[4 * k], start = axes[4 * k + 1], stop = axes[4 * k + 2];                  \
                INDEX given;                                                                                           \
                memcpy(&given, index + (i * columns + k) * sizeof given, sizeof given);                                \
                /* Negative values count from the end. As unsigned numbers, wrong ones exceed every extent. */         \
                const uint64_t value = given + (extent & (uint64_t)((int64_t)given >> 63));                            \
                wrong |= value >= extent;                                                                              \
                inside &= value - start < stop - start;                                                                \
                row += (value - start) * (uint64_t)axes[4 * k + 3];                                                    \
            }                                                                                                          \
            rows[found] = (ROW)row;                                                                                    \
            if (selected)                                                                                              \
                selected[found] = i;                                                                                   \
            found += selected ? inside : 1;                                                                            \
        }                                                                                                              \
        return wrong ? -1 : found;                                                                                     \
    }                                                                                                                  \
                                                                                                                       \
    static Py_ssize_t resolve_##INDEX##_##ROW(const char *index, const int64_t *axes, Py_ssize_t columns,              \
                                              const int64_t *positions, int64_t base, ROW *rows, int64_t *selected,    \
                                              Py_ssize_t count)                                                        \
    {                                                                                                                  \
        if (columns > 1)                                                                                               \
            return any_##INDEX##_##ROW(index, axes, columns, positions, base, rows, selected, count);                  \
        const int64_t axis[4] = {axes[0], axes[1], axes[2], axes[3]};                                                  \
        if (selected)                                                                                                  \
            return any_##INDEX##_##ROW(index, axis, 1, positions, base, rows, selected, count);                        \
        return any_##INDEX##_##ROW(index, axis, 1, positions, base, rows, NULL, count);                                \
    }

DEFINE_RESOLVE(int32_t, int32_t)
DEFINE_RESOLVE(int32_t, int64_t)
DEFINE_RESOLVE(int64_t, int64_t)

/* rows_of_lookups(index, axes, positions, base, rows, selected) */
static PyObject *rows_of_lookups(PyObject *module, PyObject *const *args, Py_ssize_t given)
{
    if (!has_arguments("rows_of_lookups", given, 6))
        return NULL;
    const int64_t base = PyLong_AsLongLong(args[3]);
    const int positional = args[2] != Py_None, windowed = args[5] != Py_None;
    PyObject *arrays[5] = {args[0], args[1], args[4], args[positional ? 2 : 1], args[windowed ? 5 : 4]};
    Py_buffer buffers[5], *index = &buffers[0], *axes = &buffers[1], *rows = &buffers[2], *positions = &buffers[3],
                          *selected = &buffers[4];
    if (PyErr_Occurred() || !get_buffers(arrays, buffers, 5, 4 | 16))
        return NULL;
    const Py_ssize_t columns = axes->len / 32, count = rows->len / rows->itemsize;
    Py_ssize_t found = 0;
#define RESOLVE(INDEX, ROW)                                                                                            \
    found = resolve_##INDEX##_##ROW(index->buf, axes->buf, columns, positional ? positions->buf : NULL, base,          \
                                    rows->buf, windowed ? selected->buf : NULL, count)
    if ((index->itemsize != 4 && index->itemsize != 8) || (rows->itemsize != index->itemsize && rows->itemsize != 8) ||
        axes->itemsize != 8 || columns < 1 || index->len / index->itemsize != count * columns ||
        (positional && positions->len != 8 * count) || (windowed && selected->len != 8 * count))
        PyErr_SetString(PyExc_TypeError, "rows_of_lookups: the arrays do not fit together");
    else if (index->itemsize == 4 && rows->itemsize == 4)
        RESOLVE(int32_t, int32_t);
    else if (index->itemsize == 4)
        RESOLVE(int32_t, int64_t);
    else
        RESOLVE(int64_t, int64_t);
    release_buffers(buffers, 5);
    return PyErr_Occurred() ? NULL : PyLong_FromSsize_t(found);
}

static PyMethodDef functions[] = {
    {"scatter_rows", (PyCFunction)(void (*)(void))scatter_rows, METH_FASTCALL, NULL},
    {"keep_selected", (PyCFunction)(void (*)(void))keep_selected, METH_FASTCALL, NULL},
    {"rows_of_runs", (PyCFunction)(void (*)(void))rows_of_runs, METH_FASTCALL, NULL},
    {"units_of_runs", (PyCFunction)(void (*)(void))units_of_runs, METH_FASTCALL, NULL},
    {"copy_runs", (PyCFunction)(void (*)(void))copy_runs, METH_FASTCALL, NULL},
    {"sort_into_bins", (PyCFunction)(void (*)(void))sort_into_bins, METH_FASTCALL, NULL},
    {"rows_of_lookups", (PyCFunction)(void (*)(void))rows_of_lookups, METH_FASTCALL, NULL},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, "_element_loops", NULL, 0, functions};

PyMODINIT_FUNC PyInit__element_loops(void)
{
    return PyModuleDef_Init(&definition);
}
