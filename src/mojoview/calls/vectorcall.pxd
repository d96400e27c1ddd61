"""The vectorcall protocol for cdef classes: calls without a tuple of arguments."""

from cpython.object cimport PyObject


cdef extern from "Python.h":
    size_t PyVectorcall_NARGS(size_t nargsf)
    object PyVectorcall_Call(object callable, object args, object kwargs)
    object PyObject_Vectorcall(object callable, PyObject *const *args, size_t nargsf, PyObject *kwnames)
    PyObject **PySequence_Fast_ITEMS(object)
    unsigned long Py_TPFLAGS_HAVE_VECTORCALL
    void PyType_Modified(type)
    ctypedef struct CallableType "PyTypeObject":
        Py_ssize_t tp_vectorcall_offset
        unsigned long tp_flags


cdef inline int enable_vectorcall(type kind, Py_ssize_t offset) except -1:
    """Let calls of the type's instances go to the function pointer at `offset` within them."""
    (<CallableType *>kind).tp_vectorcall_offset = offset
    (<CallableType *>kind).tp_flags |= Py_TPFLAGS_HAVE_VECTORCALL
    PyType_Modified(kind)
    return 0


cdef inline tuple positional_arguments(PyObject *const *args, Py_ssize_t given):
    cdef Py_ssize_t k
    return tuple([<object>args[k] for k in range(given)])


cdef inline dict keyword_arguments(PyObject *const *args, Py_ssize_t given, PyObject *kwnames):
    cdef Py_ssize_t k
    if kwnames is NULL:
        return {}
    return {name: <object>args[given + k] for k, name in enumerate(<tuple>kwnames)}
