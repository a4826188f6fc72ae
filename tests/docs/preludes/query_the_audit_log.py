from dataclasses import dataclass

from autogen_core import AgentId, MessageContext, RoutedAgent, message_handler
from autogen_core.tools import FunctionTool

from autogen_eventlog import EventLog, EventLogHandler, EventSourcedAgentRuntime


@dataclass
class Task:
    text: str


def price(fruit: str) -> int:
    return 3


class Planner(RoutedAgent):
    def __init__(self) -> None:
        super().__init__("plans")
        self.tasks: list[str] = []
        self._price = FunctionTool(price, description="What a fruit costs.")

    @message_handler
    async def on_task(self, message: Task, ctx: MessageContext) -> int:
        if not message.text:
            raise ValueError("a task without a text")
        self.tasks.append(message.text)
        await self._price.run_json({"fruit": message.text.split()[-1]}, ctx.cancellation_token)
        return len(self.tasks)


async with EventLog.open() as log:
    runtime = EventSourcedAgentRuntime(intervention_handlers=[EventLogHandler(log)])
    await Planner.register(runtime, "planner", Planner)
    runtime.start()
    for text in ("buy pears", "", "sell plums"):
        try:
            await runtime.send_message(Task(text), AgentId("planner", "7"))
        except ValueError:
            continue
    await runtime.stop_when_idle()
