"""The command `eventlog`: thin commands over the public API.

- `app`      the commands, their options, `main`      `settings`  the options that all commands share
- `opening`  a log opened for reading only            `group`     how arguments are read and commands end
- `times`    points in time as people write them      `forms`     records as JSON, one object a line
- `output`   stdout: JSON for programs, tables for people; stderr: hints and errors
- `tables`   which columns people see                 `inquiry`   what each command asks
- `restoring` an agent's state as of then            `at_hand`   a runtime with the program's agents, to look and not to act
- `checks`   the commands that hold histories against the code: `checking` runs them, `findings` shows what they found,
  `waiting` how far they have come
- `programs` the commands that run until they are stopped, and the one that asks them how they are: `serving`, `probing`
- `stopping` signals                                 `seed`      how strings are hashed
"""

from autogen_eventlog.cli.app import app, main

__all__ = ["app", "main"]
