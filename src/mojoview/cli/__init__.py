"""The command line: `python -m mojoview demo | doctor | bench`.

May use every room below; no room may use it. `main` reads the arguments, one module a command does the work and
returns plain data, `report` prints it as text or JSON.
"""
