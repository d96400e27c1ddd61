"""The command line: `python -m mojoview demo | doctor | bench | shm | ring | cache | compile`.

May use every room below; no room may use it. Read `main` (arguments, exit status), then one module a command, which
returns plain data: `demo` (with `demo.mojo`), `doctor`, `bench`, `shm`, `ring`, `cache`, `compile`. `report` prints it
as text or JSON, `plots` draws it.
"""
