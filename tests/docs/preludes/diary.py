from pathlib import Path

from tests.docs.pages import ROOT, blocks

README = ROOT / "README.md"
source = next(block.text for block in blocks(README) if block.said.get("file") == "diary.py")
Path("diary.py").write_text(source + "\n")

from autogen_core import AgentId
from diary import Diary, Note

from autogen_eventlog import EventLog, EventLogHandler, EventSourcedAgentRuntime

ANNA = AgentId("diary", "anna")
Path("app.py").write_text(
    'from diary import Diary\n\n\nasync def register(runtime):\n    await Diary.register(runtime, "diary", Diary)\n'
)

async with EventLog.open() as log:
    runtime = EventSourcedAgentRuntime(intervention_handlers=[EventLogHandler(log)])
    await Diary.register(runtime, "diary", Diary)
    runtime.start()
    for text in ("pears are ripe", "plums are not", "rain"):
        await runtime.send_message(Note(text), ANNA)
    await runtime.stop_when_idle()
del log, runtime
