/* Letting go of a Python object from foreign code: on any thread, with the GIL or without, also when Python is gone. */
#ifndef MOJOVIEW_GIL_SAFE_DECREF_H
#define MOJOVIEW_GIL_SAFE_DECREF_H

#include <Python.h>

static inline int mv_python_runs(void) {
#if PY_VERSION_HEX >= 0x030D0000
    return Py_IsInitialized() && !Py_IsFinalizing();
#else
    return Py_IsInitialized() && !_Py_IsFinalizing();
#endif
}

/* Gives back one reference, and one from the count of consumers where there is a count. While the
 * interpreter shuts down (and after) the object is left alone: it may be half gone, and a thread that
 * waits for the GIL then waits for ever. */
static inline void mv_decref_any_thread(void *object, void *consumers) {
    if (!mv_python_runs())
        return;
    /* The usual case is a thread that holds the GIL already. PyGILState_Check() would say so of every thread once there
     * has been a subinterpreter. */
    PyThreadState *mine = PyGILState_GetThisThreadState();
    int held = mine != NULL && mine == _PyThreadState_UncheckedGet();
    PyGILState_STATE state = PyGILState_UNLOCKED;
    if (!held)
        state = PyGILState_Ensure();
    if (consumers)
        --*(Py_ssize_t *)consumers;
    Py_DECREF((PyObject *)object);
    if (!held)
        PyGILState_Release(state);
}

#endif
