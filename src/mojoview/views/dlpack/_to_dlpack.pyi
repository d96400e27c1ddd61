# Knows descriptors only; what it offers is for cimport.
