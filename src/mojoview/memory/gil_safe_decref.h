/* Drops a reference to a Python object from any thread, with or without the GIL, also after finalization. */
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

/* Drops one reference, and decrements the count of consumers if there is one. During interpreter shutdown (and after)
 * the object is not released: it may be half destroyed, and a thread that waits for the GIL then never gets it. */
static inline void mv_decref_any_thread(void *object, void *consumers) {
    if (!mv_python_runs())
        return;
    /* Usually the thread holds the GIL already. PyGILState_Check() would return true in every thread after a
     * subinterpreter was created. */
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
