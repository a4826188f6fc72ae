"""The command `eventlog`: thin commands over the public API.

- `app`      the commands, their options, `main`      `settings`  the options that all commands share
- `opening`  a log opened for reading only            `running`   from a command's coroutine to its exit code
- `times`    points in time as people write them      `forms`     records as JSON, one object a line
- `output`   stdout: JSON for programs, tables for people; stderr: hints and errors
- `tables`   which columns people see                 `restoring` an agent's state as of then
"""

from autogen_eventlog.cli.app import app, main

__all__ = ["app", "main"]
