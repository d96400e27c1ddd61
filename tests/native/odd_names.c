/* Functions called like attributes of ctypes.CDLL. */
int _handle(int x) { return x; }
int _name(int x) { return x + 1; }
int _FuncPtr(int x) { return x + 2; }
int __init__(int x) { return x + 3; }
