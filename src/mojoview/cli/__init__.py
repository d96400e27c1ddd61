"""The command line: `python -m mojoview COMMAND`.

May use every room below; no room may use it. Reading order: `main` (the list of commands), `report` (results as text or
JSON), then one file for each command: `doctor`, `demo`, `bench`, `ring` with `plots`, `shm`, `cache`, `compile`. A
command's functions return plain data, which its `run` prints.
"""
